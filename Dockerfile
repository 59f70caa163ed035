# A BIDS App: docker run -v /data:/data:ro -v /out:/out voxprior /data /out participant
FROM python:3.12-slim

COPY . /opt/voxprior
RUN pip install --no-cache-dir /opt/voxprior \
    && rm -r /opt/voxprior \
    && voxprior --version

# Caches go to the user's own home; who has none gets a folder that no other user can read or write.
ENTRYPOINT ["sh", "-c", "[ -O \"$HOME\" ] || export HOME=\"$(mktemp -d)\"; exec voxprior bids \"$@\"", "voxprior"]
CMD ["--help"]

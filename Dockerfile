# A BIDS App: docker run -v /data:/data:ro -v /out:/out voxprior /data /out participant
FROM python:3.12-slim

COPY . /opt/voxprior
RUN pip install --no-cache-dir /opt/voxprior \
    && rm -r /opt/voxprior \
    && voxprior --version

# Compiled code and other caches go where any user may write.
ENV NUMBA_CACHE_DIR=/tmp/numba \
    MPLCONFIGDIR=/tmp/matplotlib

ENTRYPOINT ["voxprior", "bids"]
CMD ["--help"]

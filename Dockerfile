# A server for one model file, without PyTorch: docker build -t cerp . && docker compose up
FROM python:3.13-slim-trixie AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE constraints.txt ./
COPY src src
RUN python -m venv /venv \
    && /venv/bin/pip install --no-cache-dir --constraint constraints.txt '.[serve]'

FROM python:3.13-slim-trixie
COPY --from=build /venv /venv
# Nobody in particular: nothing in the image is theirs to write.
USER 65534:65534
ENV PATH=/venv/bin:$PATH PYTHONDONTWRITEBYTECODE=1 PYTHONUNBUFFERED=1
EXPOSE 8000
VOLUME /models
HEALTHCHECK --interval=30s --timeout=3s \
    CMD ["python", "-c", "import urllib.request as r; r.urlopen('http://127.0.0.1:8000/health')"]
ENTRYPOINT ["cerp"]
CMD ["serve", "/models/model.cerp", "--host", "0.0.0.0"]

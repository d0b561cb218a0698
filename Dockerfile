# sparseleaf serve in a container: see docs/guide/serving.md.
#
#     docker build -t sparseleaf .
#     docker run -p 8000:8000 -v "$PWD/models:/models:ro" sparseleaf /models/model.safetensors

FROM python:3.12-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends g++ && rm -rf /var/lib/apt/lists/*
WORKDIR /source
COPY pyproject.toml CMakeLists.txt README.md LICENSE ./
COPY cpp cpp
COPY src src
RUN pip wheel --no-cache-dir --no-deps --wheel-dir /wheels .

FROM python:3.12-slim
# the wheel was linked against the C++ library of the same image, which the slim one has
RUN --mount=type=bind,from=build,source=/wheels,target=/wheels \
    pip install --no-cache-dir "$(echo /wheels/sparseleaf-*.whl)[serve]" \
    && useradd --system --no-create-home sparseleaf
USER sparseleaf
ENV PYTHONUNBUFFERED=1
EXPOSE 8000
HEALTHCHECK --interval=10s --timeout=3s --start-period=30s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8000/health', timeout=2)"]
ENTRYPOINT ["sparseleaf", "serve", "--host", "0.0.0.0", "--port", "8000"]

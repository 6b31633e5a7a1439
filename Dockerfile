# Weir in an image of its own: the executable, the C library it is linked to, and nothing else (no shell, no packages).
#
#   docker build -t weir .
#   docker run -p 8787:8787 -v weir-data:/data -e OPENAI_API_KEY weir

FROM node:22-bookworm-slim AS build
WORKDIR /src
COPY . .
RUN node .run/run.mjs bun install --frozen-lockfile --silent && node .run/run.mjs bun src/build.ts
# The root of the final image. The program finds its libraries by itself; users' names are read from /etc/passwd.
RUN <<'EOS'
set -eu
root=/rootfs
mkdir -p "$root/etc" "$root/data" "$root/tmp" "$root/proc" "$root/dev"
cp dist/weir "$root/weir"
ldd dist/weir | grep -o '/[^ ]*' | while read -r library; do
  mkdir -p "$root$(dirname "$library")"
  cp -L "$library" "$root$library"
done
printf 'weir:x:65532:65532:weir:/data:/none\n' > "$root/etc/passwd"
printf 'weir:x:65532:\n' > "$root/etc/group"
printf 'hosts: files dns\n' > "$root/etc/nsswitch.conf"
chown 65532:65532 "$root/data"
chmod 755 "$root"
chmod 700 "$root/data"
chmod 1777 "$root/tmp"
EOS

FROM scratch
COPY --from=build /rootfs/ /
USER 65532:65532
WORKDIR /data
ENV WEIR_HOST=0.0.0.0 WEIR_DATA_DIR=/data WEIR_BOOTSTRAP_SHOW=file
VOLUME /data
EXPOSE 8787
HEALTHCHECK --interval=10s --timeout=5s --start-period=5s CMD ["/weir", "healthcheck"]
ENTRYPOINT ["/weir"]
CMD ["serve"]

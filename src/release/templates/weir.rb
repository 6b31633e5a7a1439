class Weir < Formula
  desc "Gateway for language models: one API in front of every provider"
  homepage "@HOMEPAGE@"
  version "@VERSION@"

  on_macos do
    on_arm do
      url "@URL@/@FILE:darwin-arm64@"
      sha256 "@SHA256:darwin-arm64@"
    end
    on_intel do
      url "@URL@/@FILE:darwin-x64@"
      sha256 "@SHA256:darwin-x64@"
    end
  end

  on_linux do
    on_arm do
      url "@URL@/@FILE:linux-arm64@"
      sha256 "@SHA256:linux-arm64@"
    end
    on_intel do
      url "@URL@/@FILE:linux-x64@"
      sha256 "@SHA256:linux-x64@"
    end
  end

  def install
    bin.install "weir"
    doc.install "THIRD-PARTY-NOTICES.txt"
    generate_completions_from_executable(bin/"weir", "completions", shells: [:bash, :zsh, :fish])
  end

  service do
    run [opt_bin/"weir", "serve", "--data-dir", var/"weir"]
    working_dir etc
    keep_alive true
    log_path var/"log/weir.log"
    error_log_path var/"log/weir.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/weir version")
  end
end

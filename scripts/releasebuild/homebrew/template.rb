class McpMetatool < Formula
  desc "Puts many MCP servers behind one, with composite tools in a sandbox"
  homepage "https://github.com/mcp-metatool/mcp-metatool"
  version "VERSION"
  license "Apache-2.0"

  on_macos do
    on_arm do
      url "https://github.com/mcp-metatool/mcp-metatool/releases/download/vVERSION/mcp-metatool_VERSION_darwin_arm64.tar.gz"
      sha256 "DIGEST"
    end
    on_intel do
      url "https://github.com/mcp-metatool/mcp-metatool/releases/download/vVERSION/mcp-metatool_VERSION_darwin_amd64.tar.gz"
      sha256 "DIGEST"
    end
  end

  on_linux do
    on_arm do
      url "https://github.com/mcp-metatool/mcp-metatool/releases/download/vVERSION/mcp-metatool_VERSION_linux_arm64.tar.gz"
      sha256 "DIGEST"
    end
    on_intel do
      url "https://github.com/mcp-metatool/mcp-metatool/releases/download/vVERSION/mcp-metatool_VERSION_linux_amd64.tar.gz"
      sha256 "DIGEST"
    end
  end

  def install
    bin.install "mcp-metatool"
    man1.install Dir["man/*.1"]
    bash_completion.install "completions/mcp-metatool.bash" => "mcp-metatool"
    fish_completion.install "completions/mcp-metatool.fish"
    zsh_completion.install "completions/_mcp-metatool"
    prefix.install "THIRD_PARTY_NOTICES"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/mcp-metatool version")
    shell_output("#{bin}/mcp-metatool demo")
  end
end

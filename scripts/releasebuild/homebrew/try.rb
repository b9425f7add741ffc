# Does with a formula what Homebrew would do on this machine, as far as our formula goes: chooses
# the archive, compares its digest, unpacks it, installs it into a folder and runs the test. It
# stands in for Homebrew, which cannot be had from a package registry.
#
#   ruby try.rb DIST FOLDER
#
# It takes archives from DIST instead of their addresses.
require "digest"
require "fileutils"
require "open3"
require "pathname"
require "rbconfig"
require "tmpdir"

DIST = Pathname(ARGV.fetch(0)).realpath
PREFIX = Pathname(ARGV.fetch(1)).tap(&:mkpath).realpath

class Pathname
  def install(*sources)
    mkpath
    sources.flatten.each do |source|
      from, name = source.is_a?(Hash) ? source.first : [source, File.basename(source)]
      FileUtils.cp(from, self + name, preserve: true)
    end
    raise "nothing to install into #{self}" if sources.flatten.empty?
  end
end

class Formula
  SYSTEM = RbConfig::CONFIG["host_os"].include?("darwin") ? :macos : :linux
  CPU = RbConfig::CONFIG["host_cpu"].match?(/aarch64|arm64/) ? :arm : :intel

  class << self
    def inherited(formula) = (@formula = formula)
    attr_reader :formula, :tested

    %i[desc homepage version license url sha256].each do |field|
      define_method(field) do |value = nil|
        @fields ||= {}
        value.nil? ? @fields.fetch(field) : @fields[field] = value
      end
    end
    { macos: SYSTEM, linux: SYSTEM, arm: CPU, intel: CPU }.each do |name, this|
      define_method("on_#{name}") { |&block| block.call if name == this }
    end
    def test(&block) = (@tested = block)
  end

  def version = self.class.version
  def prefix = PREFIX
  def bin = PREFIX + "bin"
  def man1 = PREFIX + "share/man/man1"
  def bash_completion = PREFIX + "etc/bash_completion.d"
  def fish_completion = PREFIX + "share/fish/vendor_completions.d"
  def zsh_completion = PREFIX + "share/zsh/site-functions"

  def shell_output(command)
    out, status = Open3.capture2(command)
    raise "#{command}: #{status}" unless status.success?
    out
  end

  def assert_match(want, got) = got.include?(want) || raise("#{got.inspect} does not contain #{want}")
end

load((DIST + "homebrew/mcp-metatool.rb").to_s)
formula = Formula.formula
archive = DIST + File.basename(formula.url)
raise "#{archive} has another digest" unless Digest::SHA256.file(archive).hexdigest == formula.sha256
raise "desc is longer than 80 characters" if formula.desc.length > 80
Dir.mktmpdir do |folder|
  Dir.chdir(folder) do
    system("tar", "-xzf", archive.to_s, exception: true)
    formula.new.install
    ENV["HOME"] = folder
    formula.new.instance_eval(&formula.tested)
  end
end
puts "formula: #{archive.basename} installed, #{Dir[PREFIX + 'share/man/man1/*.1'].length} manual pages; its test passed"

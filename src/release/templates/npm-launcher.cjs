#!/usr/bin/env node
// Runs the executable of this platform, which npm has installed beside this package.

const { spawn } = require('node:child_process')
const { dirname, join } = require('node:path')

const signals = ['SIGINT', 'SIGTERM', 'SIGHUP']

function platformPackage() {
  // Node says which C library it runs on: glibc by its version, musl not at all.
  const header = process.platform === 'linux' ? process.report.getReport().header : {}
  const isMusl = process.platform === 'linux' && header.glibcVersionRuntime === undefined
  const platform = process.platform === 'win32' ? 'windows' : process.platform
  return `weir-${platform}-${process.arch}${isMusl ? '-musl' : ''}`
}

function executable() {
  const name = platformPackage()
  try {
    const file = process.platform === 'win32' ? 'weir.exe' : 'weir'
    return join(dirname(require.resolve(`${name}/package.json`)), 'bin', file)
  } catch {
    process.stderr.write(
      `weir: the package ${name} is not installed. Either there is no program for this platform, or npm was told to ` +
        'leave optional dependencies out: npm install --include=optional weir\n',
    )
    process.exit(1)
  }
}

const child = spawn(executable(), process.argv.slice(2), { stdio: 'inherit' })
// The terminal sends its signals to both; whoever sends one to this process alone means the other.
for (const signal of signals) process.on(signal, () => void child.kill(signal))
child.on('error', (error) => {
  process.stderr.write(`weir: ${error.message}\n`)
  process.exit(1)
})
child.on('exit', (code, signal) => {
  if (signal !== null) {
    for (const one of signals) process.removeAllListeners(one)
    process.kill(process.pid, signal)
    return
  }
  process.exit(code ?? 1)
})

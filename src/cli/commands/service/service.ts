// `weir service print`: a systemd unit that runs the gateway as a service, with only the rights that it needs.

import { type Context, type Invocation, usageFault } from '../../context.ts'

/** Prints a unit for this executable or the one given with --exec. Nothing is installed. */
export function printService(context: Context, invocation: Invocation): void {
  const executable = invocation.option('exec') ?? ownExecutable()
  if (!executable.startsWith('/')) throw usageFault('--exec takes the full path of the executable')
  const user = invocation.option('user') ?? 'weir'
  const config = invocation.option('config') === undefined ? undefined : context.loaded.file
  const dataDir = invocation.option('dataDir') === undefined ? undefined : context.config.data_dir
  const { port } = context.config.server
  const shutdownSeconds = Math.ceil(context.config.timeouts.shutdown_ms / 1000)
  context.io.out(
    unitOf({
      executable,
      user,
      config,
      dataDir,
      lowPort: port > 0 && port < 1024,
      shutdownSeconds,
    }),
  )
  context.io.err(installHelp(user, dataDir))
}

/** The running executable. Throws a usage fault if run from source. */
function ownExecutable(): string {
  // The main module of an executable is a file inside it.
  if (!Bun.main.startsWith('/$bunfs/')) {
    throw usageFault('name the executable with --exec /usr/local/bin/weir: this one runs from its source')
  }
  return process.execPath
}

interface Unit {
  readonly executable: string
  readonly user: string
  /** Undefined for /etc/weir/weir.yaml, which need not exist. */
  readonly config: string | undefined
  /** Undefined for /var/lib/weir, which systemd makes. */
  readonly dataDir: string | undefined
  /** Whether only privileged programs may listen on the port. */
  readonly lowPort: boolean
  /** How long the calls in flight may take to end, seconds. */
  readonly shutdownSeconds: number
}

function unitOf({ executable, user, config, dataDir, lowPort, shutdownSeconds }: Unit): string {
  const named = config === undefined ? '' : ` --config ${quoteWord(config)}`
  const data =
    dataDir === undefined
      ? 'StateDirectory=weir\nStateDirectoryMode=0700'
      : `ReadWritePaths=${quotedPath(dataDir)}`
  const capability = lowPort ? 'CAP_NET_BIND_SERVICE' : ''
  return `[Unit]
Description=Weir, a gateway for language models
After=network-online.target
Wants=network-online.target

[Service]
User=${user}
ConfigurationDirectory=weir
WorkingDirectory=/etc/weir
${data}
ExecStart=${quoteWord(executable)} serve${named} --data-dir ${quoteWord(dataDir ?? '/var/lib/weir')}
# Provider keys, a NAME=value in each line; may be absent.
EnvironmentFile=-/etc/weir/weir.env
Restart=on-failure
RestartSec=1
# Calls in flight are finished first.
TimeoutStopSec=${shutdownSeconds + 10}
LimitNOFILE=65536

NoNewPrivileges=yes
CapabilityBoundingSet=${capability}
AmbientCapabilities=${capability}
ProtectSystem=strict
ProtectHome=yes
PrivateTmp=yes
PrivateDevices=yes
ProtectClock=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
ProtectControlGroups=yes
ProtectProc=invisible
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
RestrictNamespaces=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
LockPersonality=yes
RemoveIPC=yes
SystemCallArchitectures=native
SystemCallFilter=@system-service
UMask=0077
# MemoryDenyWriteExecute stays off: the JavaScript engine compiles at run time.

[Install]
WantedBy=multi-user.target
`
}

/** An argument of ExecStart, in which systemd replaces $ as well. */
function quoteWord(word: string): string {
  return quotedPath(word.replace(/\$/g, '$$$$'))
}

/** A path, with % escaped, which is special in systemd. */
function quotedPath(path: string): string {
  const escaped = path.replace(/%/g, '%%').replace(/(["\\])/g, '\\$1')
  return /[\s"'\\;]/.test(path) ? `"${escaped}"` : escaped
}

function installHelp(user: string, dataDir: string | undefined): string {
  const ownDirectory =
    dataDir === undefined ? '' : `# install -d -m 700 -o ${user} '${dataDir.replaceAll("'", "'\\''")}'\n`
  return `
# useradd --system --no-create-home ${user}
${ownDirectory}# weir service print > /etc/systemd/system/weir.service
# systemctl daemon-reload && systemctl enable --now weir
# journalctl -u weir        the first start prints the owner's API key there, once
`
}

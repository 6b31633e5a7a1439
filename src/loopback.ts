// This machine is reached directly: a proxy that the environment names would be sent the request with its key, in clear,
// and knows nothing of the servers here.

/** Whether an address names this machine: `localhost`, 127.0.0.0/8, `::1`, and the addresses that stand for all of its own. */
export function isLoopback(url: string): boolean {
  // Parsing has made the short and the numeric forms of an IPv4 address into one.
  const host = URL.parse(url)?.hostname.replace(/\.$/, '') ?? ''
  return /^(.+\.)?localhost$|^127(\.\d+){3}$|^0\.0\.0\.0$|^\[::1?\]$|^\[::ffff:(7f[0-9a-f]{2}:[0-9a-f]{1,4}|0:0)\]$/.test(
    host,
  )
}

/** What every `fetch` to an address of the operator's choice is given beside its other options. */
export function routeTo(url: string): { readonly proxy?: false } {
  return isLoopback(url) ? direct : byEnvironment
}

/** For addresses that are never behind a proxy, wherever they are. */
export const direct = { proxy: false } as const
const byEnvironment = {}

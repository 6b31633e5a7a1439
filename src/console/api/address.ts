// Addresses of the gateway, which may be below a path of its host.

/** The path of the gateway on its host: `/weir`, and nothing where it has the whole host. Scripts know where they lie. */
export const gatewayPath = pathBefore(import.meta.url)

/** Exported for tests. */
export function pathBefore(script: string): string {
  return /^(.*)\/console\/assets\/[^/]*$/.exec(new URL(script).pathname)?.[1] ?? ''
}

/** The address of a path of the gateway, such as `/docs/errors`, for links and calls that the router does not make. */
export function addressOf(path: string): string {
  return gatewayPath + path
}

/** Where programs call the gateway: for a page to show, in full. */
export function fullAddressOf(path: string): string {
  return location.origin + addressOf(path)
}

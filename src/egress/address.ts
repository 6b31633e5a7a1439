// Which addresses are public. An allow-list: what is not plainly a host on the open internet is refused.

import ipaddr from 'ipaddr.js'

/**
 * Plain unicast addresses that are not what they seem. Azure's platform endpoint answers every virtual machine
 * there, on an address of the public range.
 */
const impostors: readonly string[] = ['168.63.129.16']

/**
 * Whether an IP address, as text, is public. IPv4 in IPv6 clothes is judged as IPv4; NAT64, 6to4, Teredo,
 * site-local and every other special range is refused, as is text that is no address.
 */
export function isPublicAddress(address: string): boolean {
  if (!ipaddr.isValid(address) || impostors.includes(address)) return false
  const parsed = ipaddr.process(address)
  if (parsed.range() !== 'unicast' || impostors.includes(parsed.toString())) return false
  // Of IPv6 only 2000::/3 is in use; the library counts the rest as unicast too, the old ::127.0.0.1 among it.
  return parsed.kind() === 'ipv4' || (parsed.toByteArray()[0]! & 0xe0) === 0x20
}

/** Whether this is an address and not a name. Takes a URL's hostname: IPv6 may stand in brackets. */
export function isAddress(host: string): boolean {
  return ipaddr.isValid(withoutBrackets(host))
}

export function withoutBrackets(host: string): string {
  return host.startsWith('[') && host.endsWith(']') ? host.slice(1, -1) : host
}

// The network of an address, as limits count it: a customer's prefix, not one of its many addresses.

import ipaddr from 'ipaddr.js'
import { GatewayError, type RefusedCredential } from '../../errors/errors.ts'

/** `203.0.113.0/24`, `2001:db8:1::/56`; anything but an address counts as a network of its own. */
export function networkOf(address: string, bitsOfIPv6 = 56): string {
  const parsed = parsedAddress(address)
  if (!parsed) return 'unknown'
  const bits = parsed.kind() === 'ipv4' ? 24 : bitsOfIPv6
  const bytes = parsed.toByteArray().map((byte, at) => (at * 8 < bits ? byte : 0))
  return `${ipaddr.fromByteArray(bytes).toString()}/${bits}`
}

/** Whether an address is in one of these CIDR ranges or single addresses. A short form contains nothing. */
export function isWithin(address: string, ranges: readonly string[]): boolean {
  const parsed = parsedAddress(address)
  return parsed !== undefined && ranges.some((range) => isNetwork(range) && matches(parsed, range))
}

/** Throws `network_not_allowed` for a key that is used outside of its networks; null allows any. `credential` is its own. */
export function requireWithin(
  address: string,
  networks: readonly string[] | null,
  credential: RefusedCredential,
): void {
  if (networks === null || isWithin(address, networks)) return
  // Older versions stored short forms. What was meant is not guessed: 192.168/16 was read as 192.0.0.168/16.
  if (networks.every(isNetwork)) throw new GatewayError('network_not_allowed', { credential })
  throw new GatewayError('network_not_allowed', {
    credential,
    message:
      'A network of this key is a short form such as 10/8, which allows nothing: write it as 10.0.0.0/8.',
  })
}

/** Whether a text is an address or a CIDR range. Short forms are neither: `10/8` would be read as 0.0.0.10/8. */
export function isNetwork(text: string): boolean {
  const { IPv4, IPv6 } = ipaddr
  const isIPv4 = IPv4.isValidFourPartDecimal(text) || IPv4.isValidCIDRFourPartDecimal(text)
  return isIPv4 || IPv6.isValid(text) || IPv6.isValidCIDR(text)
}

function matches(address: ipaddr.IPv4 | ipaddr.IPv6, range: string): boolean {
  if (ipaddr.isValidCIDR(range)) {
    const [network, bits] = rangeOf(range)
    return network.kind() === address.kind() && address.match([network, bits])
  }
  const single = parsedAddress(range)
  return single !== undefined && single.toNormalizedString() === address.toNormalizedString()
}

/** Parses a range; an IPv4 range written as IPv6 (`::ffff:10.0.0.0/104`) becomes IPv4. */
function rangeOf(range: string): [ipaddr.IPv4 | ipaddr.IPv6, number] {
  const [network, bits] = ipaddr.parseCIDR(range)
  const isMapped = network instanceof ipaddr.IPv6 && network.isIPv4MappedAddress() && bits >= mappedBits
  return isMapped ? [network.toIPv4Address(), bits - mappedBits] : [network, bits]
}

/** What comes before the IPv4 address in an IPv6 address that stands for one. */
const mappedBits = 96

/** Parses an address; an IPv4 address written as IPv6 (`::ffff:10.0.0.1`) becomes IPv4. */
function parsedAddress(address: string): ipaddr.IPv4 | ipaddr.IPv6 | undefined {
  return ipaddr.isValid(address) ? ipaddr.process(address) : undefined
}

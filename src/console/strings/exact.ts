// Arithmetic on decimal strings without rounding: a BigInt and the number of its decimals.

interface Exact {
  readonly units: bigint
  readonly scale: number
}

/** Throws for text other than a plain decimal number. */
export function exact(text: string): Exact {
  const [, sign, whole, fraction = ''] = /^(-?)(\d+)(?:\.(\d+))?$/.exec(text) ?? []
  if (whole === undefined) throw new Error(`${text} is no decimal number`)
  const units = BigInt(whole + fraction)
  return { units: sign === '-' ? -units : units, scale: fraction.length }
}

export function plus(a: Exact, b: Exact): Exact {
  const scale = Math.max(a.scale, b.scale)
  return { units: at(a, scale) + at(b, scale), scale }
}

export function times(a: Exact, b: Exact): Exact {
  return { units: a.units * b.units, scale: a.scale + b.scale }
}

export function equal(a: Exact, b: Exact): boolean {
  const scale = Math.max(a.scale, b.scale)
  return at(a, scale) === at(b, scale)
}

export function sumOf(texts: readonly string[]): Exact {
  return texts.map(exact).reduce(plus, { units: 0n, scale: 0 })
}

/** Without trailing zeros. */
export function decimal({ units, scale }: Exact): string {
  const digits = (units < 0n ? -units : units).toString().padStart(scale + 1, '0')
  const whole = digits.slice(0, digits.length - scale)
  const fraction = digits.slice(digits.length - scale).replace(/0+$/, '')
  return `${units < 0n ? '-' : ''}${whole}${fraction === '' ? '' : `.${fraction}`}`
}

function at({ units, scale }: Exact, wanted: number): bigint {
  return units * 10n ** BigInt(wanted - scale)
}

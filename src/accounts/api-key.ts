// API keys: `sk-weir-<live|test>-<id>-<secret><checksum>`. The secret is shown once; only its hash is stored.


export type KeyMode = 'live' | 'test'

export interface ApiKey {
  /** 12 characters, part of the key itself: the lookup goes by it, the comparison by hash. */
  readonly id: string
  readonly account: string
  readonly name: string
  readonly mode: KeyMode
  /** SHA-256 of the whole key, hex. */
  readonly hash: string
  readonly lastFour: string
  readonly createdAt: number
  readonly expiresAt: number | null
  readonly revokedAt: number | null
  /** The most the key may spend in one window, picodollars; null for no limit of its own. */
  readonly spendLimit: bigint | null
  readonly limitWindow: LimitWindow
  /** Model ids or `provider/*` patterns; null allows every model. */
  readonly allowedModels: readonly string[] | null
}

export type LimitWindow = 'day' | 'week' | 'month' | 'total'

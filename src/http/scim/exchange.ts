// What SCIM asks and answers, apart from HTTP: one request, or one operation of a bulk request.

import { GatewayError } from '../../errors/errors.ts'
import { type Resource, ScimFault } from './patch.ts'
import { errorSchema } from './schemas.ts'

export interface ScimRequest {
  readonly method: string
  /** Below `/scim/v2/`. */
  readonly path: readonly string[]
  readonly query: URLSearchParams
  /** The versions that a change may be made to; null for any. */
  readonly ifMatch: string | null
  /** The versions that are known already. */
  readonly ifNoneMatch: string | null
  body(): Promise<Resource>
}

export interface ScimAnswer {
  readonly status: number
  readonly body?: object
  readonly headers?: Readonly<Record<string, string>>
}

/** The answer to a refusal. */
export function errorOf(error: ScimFault | GatewayError): ScimAnswer {
  const { status, message: detail } = error
  const scimType = error instanceof ScimFault ? error.scimType : undefined
  return {
    status,
    body: { schemas: [errorSchema], status: String(status), ...(scimType && { scimType }), detail },
  }
}

/** The version of a whole resource: any change of what it shows gives another. */
export function versionOf({ meta: _, ...resource }: Resource): string {
  return `W/"${Bun.SHA256.hash(JSON.stringify(resource), 'hex').slice(0, 24)}"`
}

/** Whether one of the versions of a header is this one. Weak and strong are compared alike: there are only weak ones. */
export function names(header: string, version: string): boolean {
  const plain = (tag: string) => tag.trim().replace(/^W\//, '')
  return header.split(',').some((tag) => tag.trim() === '*' || plain(tag) === plain(version))
}

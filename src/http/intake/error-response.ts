// Turns any failure into the error response of the wire contract.

import {
  asGatewayError,
  type GatewayError,
  type RenderedError,
  renderError,
  retryHeaders,
} from '../../errors/errors.ts'

/** The response for a thrown value. Anything but a GatewayError becomes `internal_error`, its cause only logged. */
export type Refuse = (thrown: unknown, requestId: string, publicUrl: string) => Response

/** Error responses in another shape, for routes whose clients expect it. */
export function refusalIn(shape: (error: RenderedError) => object): Refuse {
  return (thrown, requestId, publicUrl) => {
    const error = asGatewayError(thrown)
    return Response.json(shape(renderError(error, requestId, publicUrl)), {
      status: error.status,
      headers: {
        'x-request-id': requestId,
        ...servedBy(error),
        ...allowHeader(error),
        ...retryHeaders(error),
      },
    })
  }
}

export const errorResponse: Refuse = refusalIn((error) => error)

/** The failed provider, under the names that answers use. */
function servedBy({ details }: GatewayError): Record<string, string> {
  const model = details.metadata?.['model']
  return {
    ...(details.provider === undefined ? {} : { 'x-weir-provider': details.provider }),
    ...(typeof model === 'string' && /^[\x21-\x7e]+$/.test(model) ? { 'x-weir-model': model } : {}),
  }
}

/** The methods of the path, which a 405 must name. */
function allowHeader({ code, details }: GatewayError): Record<string, string> {
  const methods = details.metadata?.['allow']
  return code === 'method_not_allowed' && Array.isArray(methods) ? { allow: methods.join(', ') } : {}
}

/** A new request id: ordered by time, so that rows of the same moment are stored together. */
export function newRequestId(): string {
  return `req_${Bun.randomUUIDv7('buffer').toHex()}`
}

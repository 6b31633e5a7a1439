// Describes the gateway as an OAuth client, for authorisation servers that read this instead of registering it
// (draft-ietf-oauth-client-id-metadata-document).

import type { Site } from '../intake/site.ts'
import type { HttpParts } from '../parts.ts'
import type { Route } from '../route.ts'

const path = '/client-metadata.json'

/** Below the console's API: where authorisation servers redirect browsers to. */
export const mcpCallback = 'mcp-servers/callback'

/** The client id of this gateway; undefined if authorisation servers could not read its document. */
export function clientMetadataUrl(site: Pick<Site, 'url'>): string | undefined {
  const url = site.url()
  return url.startsWith('https://') ? `${url}${path}` : undefined
}

export const clientMetadataDocument: Route<Pick<HttpParts, 'site' | 'mcpAuthorization'>> = {
  method: 'GET',
  path,
  handle: ({ site, mcpAuthorization }) => {
    const url = site.url()
    const described = mcpAuthorization.clientMetadata(`${url}/console/api/${mcpCallback}`)
    return Response.json({ client_id: `${url}${path}`, ...described })
  },
}

// The gateway as an OAuth client: what authorisation servers may read about it instead of registering it
// (draft-ietf-oauth-client-id-metadata-document).

import type { Site } from '../intake/site.ts'
import type { HttpParts } from '../parts.ts'
import type { Route } from '../route.ts'

const path = '/client-metadata.json'

/** Below the console's API: where browsers come back to from an authorisation server. */
export const mcpCallback = 'mcp-servers/callback'

/** The id by which authorisation servers know this gateway; undefined where they could not read it. */
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

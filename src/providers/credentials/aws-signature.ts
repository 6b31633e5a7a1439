// Headers for Amazon: a signature of the request (Signature Version 4), or a bearer key.

import { AwsV4Signer } from 'aws4fetch'

/** Access key id, secret and, for temporary credentials, session token. */
const signingKey = /^([A-Z0-9]{16,128}):([^:]+)(?::(.+))?$/

/** The region in the host name; an operator's proxy in front of Bedrock has none. */
const regionInHost = /\b[a-z-]+\.([a-z]{2}(?:-[a-z]+)+-\d)\b/
const usualRegion = 'us-east-1'

/** The headers that authorize a POST of this body to this URL. `body` must be sent unchanged. */
export async function awsHeaders(
  key: string,
  service: string,
  url: string,
  body: string,
): Promise<Record<string, string>> {
  const [, accessKeyId, secretAccessKey, sessionToken] = signingKey.exec(key) ?? []
  if (accessKeyId === undefined || secretAccessKey === undefined) return { authorization: `Bearer ${key}` }
  const signer = new AwsV4Signer({
    method: 'POST',
    url,
    headers: { 'content-type': 'application/json' },
    body,
    accessKeyId,
    secretAccessKey,
    ...(sessionToken === undefined ? {} : { sessionToken }),
    service,
    region: regionInHost.exec(new URL(url).hostname)?.[1] ?? usualRegion,
  })
  const { headers } = await signer.sign()
  return Object.fromEntries([...headers].filter(([name]) => name !== 'content-type' && name !== 'host'))
}

// The settings of a provider: of a known one what deviates from its row, of another all of it.

import { z } from 'zod'
import { ignorableParameters } from '../protocols/parameters.ts'
import { protocolIds } from '../protocols/protocol.ts'
import { baseUrl, day, note, secret, wholeBetween } from './fields.ts'

const providerTimeouts = {
  connect_ms: note(wholeBetween(1, day), 'Overrides timeouts.connect_ms for this provider'),
  first_byte_ms: note(wholeBetween(1, day), 'Overrides timeouts.first_byte_ms for this provider'),
  first_byte_reasoning_ms: note(
    wholeBetween(1, day),
    'Overrides timeouts.first_byte_reasoning_ms for this provider',
  ),
  gap_ms: note(wholeBetween(1, day), 'Overrides timeouts.gap_ms for this provider'),
  total_ms: note(wholeBetween(1, day), 'Overrides timeouts.total_ms for this provider'),
}

export const providerSchema = z.strictObject({
  name: note(z.string().min(1).optional(), 'What people call it'),
  protocol: note(
    z.enum(protocolIds).optional(),
    'The wire protocol it speaks; the registry knows that of known providers',
  ),
  base_url: note(
    baseUrl.optional(),
    'Its address up to and including the version segment; the protocol appends the rest',
  ),
  api_key: note(
    z
      .union([secret.transform((key) => [key]), z.array(secret)], { error: 'must be text, or a list of it' })
      .default([]),
    'Its key, or a list of keys used in turn: text, ${ENVIRONMENT_NAME} or file:/path',
    { secret: true },
  ),
  headers: note(
    z.record(z.string().regex(/^[A-Za-z0-9!#$%&'*+.^_`|~-]+$/), z.string().regex(/^[^\r\n\0]*$/)).default({}),
    'Fixed headers sent with every request to it',
    { secret: true },
  ),
  quirks: note(
    z.record(z.string(), z.unknown()).default({}),
    "What deviates from the protocol's defaults. `passes` lists further fields of clients' bodies that go on although " +
      'the gateway has no word for them: any that might change the price or the length of an answer does not; ' +
      '`bodyExtras` are fields of every request, whatever clients say of them; `dialects: false` keeps models that ' +
      "reason in the provider's own protocol, for an address that serves no other (OpenAI's, Azure's and xAI's are asked in Responses)",
  ),
  ignores: note(
    z.array(z.enum(ignorableParameters)).default([]),
    'Parameters, by their names in chat completions, that it takes and ignores: each is left out, named to the client, ' +
      "and refused where the request is strict. Without this a server is believed to know what its protocol defines, but for OpenAI's own extras " +
      '(metadata, store, service_tier, verbosity, safety_identifier, prompt_cache_key, prompt_cache_retention), ' +
      'which are left out and named unless quirks.drops says otherwise',
  ),
  timeouts: z.strictObject(providerTimeouts).partial().prefault({}),
  price: note(
    z.literal('free').optional(),
    '`free` sells its models without a price of their own for nothing, on purpose',
  ),
  disabled: note(z.boolean().default(false), 'Takes the provider out of service'),
})

// The documentation of the catalog.

import { listedModelSchema, modelListSchema } from '../../catalog/wire.ts'
import { json, ofAnyRequest, ofModel, type Operation, text } from '../docs/operation.ts'

export const models: Operation = {
  id: 'listModels',
  tag: 'Models',
  summary: 'List the models',
  description:
    'Every model that is sold here; with `available=true` those that can be called now. Beside its price each has who serves it, with the success and the latency of the last hour, at most half a minute old. Needs no key; one that is limited to models is shown these. The answer has an `ETag`, and is compressed for clients that take gzip. A request with an `anthropic-version` or an `x-api-key` header is answered in pages (`limit`, `after_id`, `before_id`) in the shape of Anthropic’s Models API.',
  security: 'none',
  parameters: [
    text('q', 'Only models whose id or name holds this.', 'echo'),
    text('provider', 'Only models of this provider.', 'sim'),
    {
      ...text(
        'available',
        'Only models that can be called now: of providers with a key, and of servers that run.',
      ),
      schema: { enum: ['true', 'false'] },
    },
    { ...text('access', 'Only open, or only premium models.'), schema: { enum: ['open', 'premium'] } },
    text('max_price', 'The most that a million tokens may cost, US dollars.', '2.50'),
    text('supported_parameters', 'Only models that honour all of these, with commas.', 'tools,seed'),
  ],
  answers: {
    200: { description: 'The models.', content: json('ModelList') },
    304: { description: 'The list is still the one that `If-None-Match` names.' },
  },
  errors: [...ofAnyRequest, 'rate_limit_exceeded'],
  schemas: { ModelList: modelListSchema },
}

export const model: Operation = {
  id: 'getModel',
  path: '/v1/models/{provider}/{name}',
  tag: 'Models',
  summary: 'Get one model',
  description: 'Needs no key. The name may itself hold slashes, which may be written as `%2F`.',
  security: 'none',
  parameters: [
    {
      name: 'provider',
      in: 'path',
      required: true,
      description: 'What stands before the first slash of the id.',
      schema: { type: 'string' },
      example: 'sim',
    },
    {
      name: 'name',
      in: 'path',
      required: true,
      description: 'The rest of the id.',
      schema: { type: 'string' },
      example: 'echo',
    },
  ],
  answers: {
    200: { description: 'The model.', content: json('Model') },
    304: { description: 'The model is still as `If-None-Match` knows it.' },
  },
  errors: [...ofAnyRequest, ...ofModel, 'rate_limit_exceeded'],
  schemas: { Model: listedModelSchema },
}

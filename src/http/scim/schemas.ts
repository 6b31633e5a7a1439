// What SCIM clients ask about this service: its abilities, its kinds of resources and their attributes (RFC 7643).

import { GatewayError } from '../../errors/errors.ts'
import { type Resource, ScimFault } from './patch.ts'

export const userSchema = 'urn:ietf:params:scim:schemas:core:2.0:User'
export const groupSchema = 'urn:ietf:params:scim:schemas:core:2.0:Group'
export const enterpriseSchema = 'urn:ietf:params:scim:schemas:extension:enterprise:2.0:User'
export const listSchema = 'urn:ietf:params:scim:api:messages:2.0:ListResponse'
export const bulkResponseSchema = 'urn:ietf:params:scim:api:messages:2.0:BulkResponse'
const errorSchema = 'urn:ietf:params:scim:api:messages:2.0:Error'

/** Resources of a page, at most. */
export const mostResources = 200
/** Operations of a bulk request, and the bytes of any: enough for the members of a large group. */
export const mostOperations = 1_000
export const mostBodyBytes = 4_194_304

export function serviceProviderConfig(base: string) {
  return {
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:ServiceProviderConfig'],
    documentationUri: `${base.replace(/\/scim\/v2$/, '')}/docs/scim`,
    patch: { supported: true },
    bulk: { supported: true, maxOperations: mostOperations, maxPayloadSize: mostBodyBytes },
    filter: { supported: true, maxResults: mostResources },
    changePassword: { supported: false },
    sort: { supported: false },
    etag: { supported: true },
    authenticationSchemes: [
      {
        type: 'oauthbearertoken',
        name: 'Management key',
        description: 'A management key of the scope scim, as a bearer token.',
        primary: true,
      },
    ],
    meta: { resourceType: 'ServiceProviderConfig', location: `${base}/ServiceProviderConfig` },
  }
}

export function resourceTypes(base: string) {
  const type = (name: string, endpoint: string, schema: string, more: object) => ({
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:ResourceType'],
    id: name,
    name,
    endpoint,
    schema,
    ...more,
    meta: { resourceType: 'ResourceType', location: `${base}/ResourceTypes/${name}` },
  })
  const schemaExtensions = [{ schema: enterpriseSchema, required: false }]
  return [
    type('User', '/Users', userSchema, { description: 'An account.', schemaExtensions }),
    type('Group', '/Groups', groupSchema, { description: 'A group of accounts.' }),
  ]
}

interface AttributeOptions {
  readonly type?: 'string' | 'boolean' | 'complex' | 'reference'
  readonly multiValued?: boolean
  readonly required?: boolean
  readonly mutability?: 'readWrite' | 'readOnly' | 'immutable'
  readonly uniqueness?: 'none' | 'server'
  readonly subAttributes?: readonly object[]
  readonly referenceTypes?: readonly string[]
}

function attribute(name: string, description: string, options: AttributeOptions = {}) {
  const { type = 'string', multiValued = false, required = false, mutability = 'readWrite' } = options
  const { uniqueness = 'none', subAttributes, referenceTypes } = options
  return {
    name,
    type,
    multiValued,
    description,
    required,
    caseExact: false,
    mutability,
    returned: 'default',
    uniqueness,
    ...(subAttributes === undefined ? {} : { subAttributes }),
    ...(referenceTypes === undefined ? {} : { referenceTypes }),
  }
}

const ofReference = (of: string, mutability: 'readOnly' | 'immutable') => [
  attribute('value', `The id of the ${of.toLowerCase()}.`, { mutability }),
  attribute('$ref', 'Its address.', { type: 'reference', mutability, referenceTypes: [of] }),
  attribute('display', 'Its name.', { mutability: 'readOnly' }),
]

const texts = (names: readonly string[]) => names.map((name) => attribute(name, `The ${name}.`))

const listOf = (name: string, description: string) =>
  attribute(name, description, {
    type: 'complex',
    multiValued: true,
    subAttributes: [
      attribute('value', 'The value.'),
      attribute('type', 'Its kind, such as work.'),
      attribute('primary', 'Whether it is the first one.', { type: 'boolean' }),
      attribute('display', 'How it is shown.'),
    ],
  })

export function schemas(base: string) {
  const schema = (id: string, name: string, description: string, attributes: readonly object[]) => ({
    schemas: ['urn:ietf:params:scim:schemas:core:2.0:Schema'],
    id,
    name,
    description,
    attributes,
    meta: { resourceType: 'Schema', location: `${base}/Schemas/${id}` },
  })
  return [
    schema(userSchema, 'User', 'An account.', [
      attribute('userName', 'Its address, or a name of the directory beside one in emails.', {
        required: true,
        uniqueness: 'server',
      }),
      attribute('name', 'The name of the person.', {
        type: 'complex',
        subAttributes: texts(['formatted', 'familyName', 'givenName', 'middleName']),
      }),
      ...texts(['displayName', 'nickName', 'title', 'userType', 'preferredLanguage', 'locale', 'timezone']),
      attribute('active', 'False for an account that is suspended.', { type: 'boolean' }),
      listOf('emails', 'Addresses; the primary one is that of the account where userName is none.'),
      listOf('phoneNumbers', 'Telephone numbers.'),
      attribute('groups', 'The groups that it is a member of.', {
        type: 'complex',
        multiValued: true,
        mutability: 'readOnly',
        subAttributes: ofReference('Group', 'readOnly'),
      }),
    ]),
    schema(groupSchema, 'Group', 'A group of accounts.', [
      attribute('displayName', 'Its name.', { required: true }),
      attribute('members', 'Its members.', {
        type: 'complex',
        multiValued: true,
        subAttributes: ofReference('User', 'immutable'),
      }),
    ]),
    schema(enterpriseSchema, 'EnterpriseUser', 'What companies say of people.', [
      ...texts(['employeeNumber', 'costCenter', 'organization', 'division', 'department']),
      attribute('manager', 'The manager.', {
        type: 'complex',
        subAttributes: [attribute('value', 'Who it is.'), attribute('displayName', 'The name.')],
      }),
    ]),
  ]
}

// What SCIM asks and answers, apart from HTTP: one request, or one operation of a bulk request.

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

// The statements of any account, for operators.

import { useQuery } from '@tanstack/react-query'
import { useParams } from 'wouter'
import { call } from '../api/call.ts'
import { Statements } from '../pages/payments/statement.tsx'
import { t } from '../strings/text.ts'
import type { AccountWhole } from './wire.ts'

export function AccountStatement() {
  const { id } = useParams<{ id: string }>()
  const account = `admin/accounts/${encodeURIComponent(id)}`
  const { data } = useQuery({
    queryKey: ['admin', 'account', id],
    queryFn: async () => (await call<{ data: AccountWhole }>('GET', account)).data,
  })
  const page = `/operator/accounts/${encodeURIComponent(id)}`
  return (
    <Statements
      path={`${account}/statements`}
      page={`${page}/statements`}
      back={{ href: page, name: data?.email ?? t('Account') }}
      since={data?.created_at}
    />
  )
}

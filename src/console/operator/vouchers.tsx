// Vouchers: made, shown once, revoked.

import { useState } from 'react'
import type { NewVoucherView, VoucherView } from '../../http/payments/answers.ts'
import { call, newId, refresh, useData } from '../api/call.ts'
import { elevate } from '../session/signed-out.tsx'
import { day, t, usd } from '../strings/text.ts'
import {
  ActForm,
  Badge,
  Button,
  Dialog,
  Empty,
  RevokeButton,
  ShownOnce,
  TextField,
  textOf,
} from '../ui/kit.tsx'
import {
  firstOnPhones,
  notOnPhones,
  numeric,
  QueryState,
  screenReaderOnly,
  Table,
  wideOnly,
} from '../ui/table.tsx'
import { PaymentsHead, AccountLink } from './payments.tsx'

const queryKey = ['admin', 'vouchers']

const voucherTones: Readonly<Record<VoucherView['state'], 'good' | 'plain' | 'warn'>> = {
  valid: 'good',
  redeemed: 'plain',
  revoked: 'warn',
  expired: 'warn',
}

export function Vouchers() {
  const [making, setMaking] = useState(false)
  const { data, error, isPending, refetch } = useData<readonly VoucherView[]>(queryKey, 'admin/vouchers')
  const revoke = async (id: string) => {
    await call('POST', `admin/vouchers/${encodeURIComponent(id)}/revoke`)
    await refresh(...queryKey)
  }
  return (
    <>
      <PaymentsHead>
        <Button look="primary" onClick={() => setMaking(true)}>
          {t('Make vouchers')}
        </Button>
      </PaymentsHead>
      <QueryState query={{ error, isPending, refetch }} />
      {data?.length === 0 && (
        <Empty title={t('There are no vouchers.')}>
          <p>{t('A voucher is a code that becomes purchased credit once, without any processor.')}</p>
        </Empty>
      )}
      {data && data.length > 0 && (
        <Table
          label={t('Vouchers')}
          columns={[
            t('Voucher'),
            wideOnly(t('State')),
            numeric(t('Credit')),
            wideOnly(t('Expires')),
            wideOnly(t('Redeemed by')),
            wideOnly(t('Note')),
            screenReaderOnly(t('Actions')),
          ]}
        >
          {data.map((voucher) => (
            <tr key={voucher.id}>
              <td className={firstOnPhones}>
                <span className="font-mono text-[12px] break-all">{voucher.id}</span>
                <span className="mt-0.5 flex flex-wrap items-center gap-x-2 text-[12.5px] text-muted sm:hidden">
                  <Badge tone={voucherTones[voucher.state]}>{t(voucher.state)}</Badge>
                  {voucher.account !== null && <AccountLink id={voucher.account} />}
                  <span className="break-words">{voucher.note}</span>
                </span>
              </td>
              <td className={notOnPhones}>
                <Badge tone={voucherTones[voucher.state]}>{t(voucher.state)}</Badge>
              </td>
              <td className="num">{usd(voucher.credit_usd)}</td>
              <td className={`whitespace-nowrap ${notOnPhones}`}>
                {voucher.expires_at === null ? t('never') : day(voucher.expires_at)}
              </td>
              <td className={notOnPhones}>
                {voucher.account === null ? '–' : <AccountLink id={voucher.account} />}
              </td>
              <td className={notOnPhones}>{voucher.note}</td>
              <td className="text-right">
                {voucher.state === 'valid' && (
                  <RevokeButton
                    name={voucher.id}
                    consequence={t('Nobody can redeem it from then on, and nothing brings the voucher back.')}
                    revoke={() => revoke(voucher.id)}
                  />
                )}
              </td>
            </tr>
          ))}
        </Table>
      )}
      {making && <Making onClose={() => setMaking(false)} />}
    </>
  )
}

/** The codes are only in this dialog's state and are lost when it closes. */
function Making({ onClose }: { onClose: () => void }) {
  // If the answer was lost, the same request is sent again with this id and makes no second batch.
  const [id] = useState(() => newId())
  const [codes, setCodes] = useState<readonly string[] | null>(null)
  const make = async (given: FormData) => {
    const until = textOf(given, 'expires_at')
    const body = {
      id,
      usd: textOf(given, 'usd') ?? '',
      count: Number(textOf(given, 'count') ?? '1'),
      note: textOf(given, 'note') ?? '',
      ...(until === undefined ? {} : { expires_at: `${until}T23:59:59Z` }),
    }
    try {
      const { data } = await elevate(() =>
        call<{ data: readonly NewVoucherView[] }>('POST', 'admin/vouchers', body),
      )
      setCodes(data.map(({ code }) => code))
    } finally {
      // Also after an error: they may have been made, and only the answer was lost.
      void refresh(...queryKey)
    }
  }
  if (codes !== null)
    return (
      <ShownOnce
        title={t('Vouchers')}
        warning={t('This is the only time that the codes are shown.')}
        secret={codes.join('\n')}
        label={t('Codes')}
        done={t('I have stored the codes')}
        onClose={onClose}
      />
    )
  return (
    <Dialog title={t('Make vouchers')} onClose={onClose}>
      <ActForm onSubmit={make} action={t('Make them')}>
        <TextField
          label={t('US dollars each')}
          name="usd"
          inputMode="decimal"
          pattern="\d{1,7}(\.\d{1,12})?"
          required
        />
        <TextField label={t('How many')} name="count" type="number" min={1} max={1000} defaultValue={1} />
        <TextField label={t('Expires')} name="expires_at" type="date" hint={t('Empty: never.')} />
        <TextField label={t('Note')} name="note" maxLength={500} />
      </ActForm>
    </Dialog>
  )
}

// What operators set of an account, beside its credit.

import { useState } from 'react'
import { useLocation } from 'wouter'
import type { InvitedView, LinkView } from '../../http/admin/answers.ts'
import { csvOf } from '../../text/text.ts'
import { call, refresh } from '../api/call.ts'
import { elevate } from '../session/signed-out.tsx'
import { moment, t } from '../strings/text.ts'
import {
  ActForm,
  Badge,
  Button,
  Choice,
  Code,
  Copy,
  Dialog,
  saveFile,
  Section,
  TextArea,
  TextField,
  textOf,
} from '../ui/kit.tsx'

/** Purchased credit that an account has each month; `amount` is null for none. */
export function MonthlyCredit({ path, amount }: { path: string; amount: string | null }) {
  const submit = async (given: FormData) => {
    const body = { monthly_credit_usd: textOf(given, 'monthly_credit_usd') ?? null }
    await elevate(() => call('POST', `${path}/monthly-credit`, body))
    await refresh('admin')
  }
  return (
    <Section title={t('Credit of each month')}>
      <div className="card p-4">
        <ActForm onSubmit={submit} action={t('Set the credit')} fields={['monthly_credit_usd']}>
          {(faultOf) => (
            <>
              <p className="text-muted">
                {t(
                  'Purchased credit that ends with its month. What this month has had stays; a new amount holds from the next month on.',
                )}
              </p>
              <TextField
                label={t('Each month, US dollars')}
                name="monthly_credit_usd"
                inputMode="decimal"
                pattern="\d{1,7}(\.\d{1,12})?"
                placeholder={t('none')}
                defaultValue={amount ?? ''}
                error={faultOf('monthly_credit_usd')}
              />
            </>
          )}
        </ActForm>
      </div>
    </Section>
  )
}

/** Deletes an account, whose address is written once more. */
export function DeleteAccount({ path, email }: { path: string; email: string }) {
  const [, navigate] = useLocation()
  const [asking, setAsking] = useState(false)
  const [written, setWritten] = useState('')
  const remove = async () => {
    await elevate(() => call('DELETE', path))
    await refresh('admin')
    navigate('/operator/accounts', { replace: true })
  }
  return (
    <Section title={t('Delete the account')}>
      <p className="mb-3 text-muted">
        {t('Its keys are revoked and its sessions ended. What is left of its credit is lost.')}
      </p>
      <Button look="danger" onClick={() => setAsking(true)}>
        {t('Delete the account')}
      </Button>
      {asking && (
        <Dialog title={t('Delete {name}', { name: email })} onClose={() => setAsking(false)}>
          <ActForm look="danger" action={t('Delete')} onSubmit={remove}>
            <p>
              {t(
                'What it asked and was answered is erased; its charges stay in the books. Nothing brings it back.',
              )}
            </p>
            <TextField
              label={t('Its address, to confirm')}
              name="confirm"
              required
              autoFocus
              pattern={email.replaceAll(/[.*+?^${}()|[\]\\/-]/g, '\\$&')}
              value={written}
              onChange={(event) => setWritten(event.target.value)}
            />
          </ActForm>
        </Dialog>
      )}
    </Section>
  )
}

// Invitations: one person by a link, several from a list.

export function Invite({ onClose }: { onClose: () => void }) {
  const [link, setLink] = useState<LinkView | null>(null)
  const [isOfMany, setOfMany] = useState(false)
  const invite = async (given: FormData) => {
    const body = { email: textOf(given, 'email'), role: textOf(given, 'role') }
    setLink(await elevate(() => call<LinkView>('POST', 'admin/invitations', body)))
  }
  if (isOfMany) return <InviteMany onClose={onClose} />
  return (
    <Dialog title={t('Invite somebody')} onClose={onClose} firm={link !== null} wide={link !== null}>
      {link === null ? (
        <ActForm onSubmit={invite} action={t('Make the link')}>
          <p>
            <Button look="quiet" onClick={() => setOfMany(true)}>
              {t('Several people, from a list')}
            </Button>
          </p>
          <TextField label={t('E-mail')} name="email" type="email" required autoFocus />
          <Choice
            label={t('Role')}
            name="role"
            defaultValue="user"
            options={[
              ['user', t('user')],
              ['operator', t('operator')],
            ]}
          />
        </ActForm>
      ) : (
        <ShownLink link={link} onClose={onClose} />
      )}
    </Dialog>
  )
}

function InviteMany({ onClose }: { onClose: () => void }) {
  const [invited, setInvited] = useState<readonly InvitedView[] | null>(null)
  const invite = async (given: FormData) => {
    const csv = textOf(given, 'list') ?? ''
    const { data } = await elevate(() =>
      call<{ data: readonly InvitedView[] }>('POST', 'admin/invitations/list', { csv }),
    )
    setInvited(data)
  }
  const title = t('Invite people from a list')
  if (invited === null)
    return (
      <Dialog title={title} onClose={onClose} wide>
        <ActForm onSubmit={invite} action={t('Invite')}>
          <TextArea
            label={t('The list')}
            name="list"
            rows={10}
            required
            autoFocus
            spellCheck={false}
            placeholder={'anna@example.org\nberta@example.org,Berta,Research,admin,20'}
            hint={t(
              'One person a line: address, and where wanted name, group, role in the group and US dollars of each month. A table from a spreadsheet can be pasted, with or without its heading.',
            )}
          />
        </ActForm>
      </Dialog>
    )
  const save = () =>
    saveFile('invitations.csv', 'text/csv', csvOf(['address', 'name', 'url', 'expires_at'], invited))
  return (
    <Dialog title={title} onClose={onClose} firm wide>
      <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
        <p>{t('Each link signs in once, and is not shown again: save them before you close this.')}</p>
        <ul className="max-h-[50vh] overflow-y-auto rounded-md border border-line">
          {invited.map(({ account, address, url, state }) => (
            <li key={account} className="border-b border-line px-3 py-2 last:border-0">
              <p className="break-all">
                {address} {state === 'there' && <Badge>{t('has an account')}</Badge>}
              </p>
              {url !== null && <Copy text={url} label={t('Copy the link')} />}
            </li>
          ))}
        </ul>
        <div className="flex flex-wrap justify-end gap-2">
          <Button onClick={save}>{t('Save as CSV')}</Button>
          <Button look="primary" onClick={onClose}>
            {t('Done')}
          </Button>
        </div>
      </div>
    </Dialog>
  )
}

/** The link, which is shown only once. */
export function ShownLink({ link, onClose }: { link: LinkView; onClose: () => void }) {
  return (
    <div className="grid grid-cols-[minmax(0,1fr)] gap-4">
      <p>
        {t('Give it to its user. It signs in once, until {time}, and is not shown again.', {
          time: moment(link.expires_at),
        })}
      </p>
      <Code label={t('The link')} text={link.url} />
      <div className="flex justify-end">
        <Button look="primary" onClick={onClose}>
          {t('Done')}
        </Button>
      </div>
    </div>
  )
}

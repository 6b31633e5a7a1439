// A message of Razorpay for each of its events about payments, with the fields that its documentation describes
// (razorpay.com/docs/webhooks/payloads), and what the gateway reads in it.

import type { PaymentNews } from '../../src/payments/top-up.ts'

interface Documented {
  readonly event: string
  readonly payload: Readonly<Record<string, { readonly entity: object }>>
  readonly news: PaymentNews
  /** What it says of whose payment it is. */
  readonly topUp: string | null
  readonly reference: string | null
}

const at = 1_795_340_000
const topUp = 'topup_0123456789abcdef'
const reference = 'plink_Qflc1VVaNJciLq'

const payment = {
  id: 'pay_Qfld2aWbOKdjMr',
  entity: 'payment',
  amount: 50_000,
  currency: 'INR',
  base_amount: 50_000,
  status: 'captured',
  order_id: 'order_QflcnnZqCekuvL',
  invoice_id: null,
  international: false,
  method: 'upi',
  amount_refunded: 0,
  amount_transferred: 0,
  refund_status: null,
  captured: true,
  description: '#Qflc1VVaNJciLq',
  card_id: null,
  bank: null,
  wallet: null,
  vpa: 'payer@upi',
  email: 'payer@example.org',
  contact: '+919000000000',
  notes: { top_up: topUp },
  fee: 1_180,
  tax: 180,
  error_code: null,
  error_description: null,
  error_source: null,
  error_step: null,
  error_reason: null,
  acquirer_data: { rrn: '249727216453', upi_transaction_id: '95F9C08EF8042B93' },
  created_at: at,
  upi: { payer_account_type: 'bank_account', vpa: 'payer@upi', flow: 'intent' },
}

const link = {
  id: reference,
  entity: 'payment_link',
  accept_partial: false,
  amount: 50_000,
  amount_paid: 50_000,
  cancelled_at: 0,
  created_at: at - 60,
  currency: 'INR',
  customer: {},
  description: 'Credit for model usage',
  expire_by: at + 1_800,
  expired_at: 0,
  first_min_partial_amount: 0,
  notes: { top_up: topUp },
  notify: { email: false, sms: false },
  order_id: 'order_QflcnnZqCekuvL',
  reference_id: topUp,
  reminder_enable: false,
  reminders: [],
  short_url: 'https://rzp.io/i/abc',
  status: 'paid',
  updated_at: at,
  user_id: '',
}

const order = {
  id: 'order_QflcnnZqCekuvL',
  entity: 'order',
  amount: 50_000,
  amount_paid: 50_000,
  amount_due: 0,
  currency: 'INR',
  receipt: topUp,
  offer_id: null,
  status: 'paid',
  attempts: 1,
  notes: [],
  created_at: at - 60,
}

const refund = {
  id: 'rfnd_QfleAbXcPLekNs',
  entity: 'refund',
  amount: 20_000,
  currency: 'INR',
  payment_id: payment.id,
  notes: [],
  receipt: null,
  acquirer_data: { arn: null },
  created_at: at + 60,
  batch_id: null,
  status: 'processed',
  speed_processed: 'normal',
  speed_requested: 'normal',
}

const dispute = {
  id: 'disp_QflfBcYdQMflOt',
  entity: 'dispute',
  payment_id: payment.id,
  amount: 50_000,
  currency: 'INR',
  amount_deducted: 0,
  reason_code: 'goods_or_services_not_received',
  respond_by: at + 864_000,
  status: 'open',
  phase: 'chargeback',
  created_at: at + 120,
}

const ofPayment = (entity: object) => ({ payment: { entity } })
const paid: PaymentNews = {
  kind: 'paid',
  paymentId: payment.id,
  amount: 50_000n,
  currency: 'INR',
  paidAt: at * 1000,
  method: 'upi',
}
const disputed = (phase: 'open' | 'won' | 'lost'): PaymentNews => ({
  kind: 'dispute',
  disputeId: dispute.id,
  paymentId: payment.id,
  amount: 50_000n,
  currency: 'INR',
  phase,
})
const unread = { news: { kind: 'other' }, topUp: null, reference: null } as const
const inDispute = (status: string) => ({ ...ofPayment(payment), dispute: { entity: { ...dispute, status } } })

export const documented: readonly Documented[] = [
  {
    event: 'payment_link.paid',
    payload: { payment_link: { entity: link }, order: { entity: order }, ...ofPayment(payment) },
    news: paid,
    topUp,
    reference,
  },
  {
    event: 'payment_link.partially_paid',
    payload: { payment_link: { entity: { ...link, status: 'partially_paid' } }, ...ofPayment(payment) },
    ...unread,
  },
  {
    event: 'payment_link.expired',
    payload: { payment_link: { entity: { ...link, status: 'expired', expired_at: at } } },
    news: { kind: 'expired' },
    topUp,
    reference,
  },
  {
    event: 'payment_link.cancelled',
    payload: { payment_link: { entity: { ...link, status: 'cancelled', cancelled_at: at } } },
    news: { kind: 'failed' },
    topUp,
    reference,
  },
  {
    event: 'payment.authorized',
    payload: ofPayment({ ...payment, status: 'authorized', captured: false, fee: null, tax: null }),
    ...unread,
  },
  { event: 'payment.captured', payload: ofPayment(payment), news: paid, topUp, reference: null },
  {
    event: 'payment.failed',
    payload: ofPayment({
      ...payment,
      status: 'failed',
      captured: false,
      error_code: 'BAD_REQUEST_ERROR',
      error_source: 'customer',
    }),
    ...unread,
  },
  {
    event: 'order.paid',
    payload: { order: { entity: order }, ...ofPayment({ ...payment, notes: [] }) },
    news: paid,
    topUp,
    reference: null,
  },
  {
    event: 'refund.created',
    payload: { refund: { entity: { ...refund, status: 'pending' } }, ...ofPayment(payment) },
    ...unread,
  },
  {
    event: 'refund.processed',
    payload: { refund: { entity: refund }, ...ofPayment({ ...payment, amount_refunded: 20_000 }) },
    news: {
      kind: 'refund',
      refundId: refund.id,
      paymentId: payment.id,
      amount: 20_000n,
      currency: 'INR',
      of: 'one',
    },
    topUp,
    reference: null,
  },
  {
    event: 'refund.failed',
    payload: { refund: { entity: { ...refund, status: 'failed' } }, ...ofPayment(payment) },
    news: {
      kind: 'refund-failed',
      refundId: refund.id,
      paymentId: payment.id,
      amount: 20_000n,
      currency: 'INR',
      of: 'one',
    },
    topUp,
    reference: null,
  },
  {
    event: 'refund.speed_changed',
    payload: { refund: { entity: refund }, ...ofPayment(payment) },
    ...unread,
  },
  {
    event: 'payment.dispute.created',
    payload: inDispute('open'),
    news: disputed('open'),
    topUp,
    reference: null,
  },
  { event: 'payment.dispute.under_review', payload: inDispute('under_review'), ...unread },
  { event: 'payment.dispute.action_required', payload: inDispute('open'), ...unread },
  { event: 'payment.dispute.won', payload: inDispute('won'), news: disputed('won'), topUp, reference: null },
  {
    event: 'payment.dispute.lost',
    payload: inDispute('lost'),
    news: disputed('lost'),
    topUp,
    reference: null,
  },
  {
    event: 'payment.dispute.closed',
    payload: inDispute('closed'),
    news: disputed('won'),
    topUp,
    reference: null,
  },
]

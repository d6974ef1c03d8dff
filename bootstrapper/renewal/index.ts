/** Renewal of certificates: the worker that watches expiry dates, and one `Renewal` for each group of certificates. */
export {
  certificateLifetimes,
  controlPlaneRenewals,
  kubeletServingRenewal,
} from './control-plane-renewal.ts';
export { type Renewal, renewalWorker } from './renewal-worker.ts';
export { ensureValidCertificates, ticketRenewal } from './ticket-renewal.ts';

import { AtlsError, type AtlsErrorCode } from './errors.ts';
import { encodeAlert, type Alert } from './wire.ts';

/** The frame that tells the peer why this end closes the connection. Undefined if the peer needs no alert. */
export function alertFor(code: AtlsErrorCode): Uint8Array | undefined {
  const alert = ALERT_OF[code];
  return alert === undefined ? undefined : encodeAlert(alert);
}

/** The error for an alert that the peer sent; `undefined` is an alert that this version does not know. */
export function errorFromAlert(alert: Alert | undefined): AtlsError {
  const code = alert === undefined ? 'atls-alert-protocol' : CODE_OF[alert];
  return new AtlsError(
    code,
    `attesting: the peer sent ${alert === undefined ? 'an unknown alert' : `alert ${alert}`}`,
  );
}

const ALERT_OF: Partial<Record<AtlsErrorCode, Alert>> = {
  'atls-tls-certificate': 'protocol',
  'atls-reflection': 'protocol',
  'atls-frame-version': 'protocol',
  'atls-frame-type': 'protocol',
  'atls-frame-order': 'protocol',
  'atls-frame-malformed': 'protocol',
  'atls-early-data': 'protocol',
  'atls-evidence-format': 'protocol',
  'atls-frame-too-large': 'tooLarge',
  'atls-timeout': 'timeout',
  'atls-evidence-rejected': 'evidenceRejected',
  'atls-issue-failed': 'internal',
  'atls-internal': 'internal',
  'atls-busy': 'busy',
  'atls-no-common-format': 'noCommonFormat',
};

const CODE_OF: Readonly<Record<Alert, AtlsErrorCode>> = {
  protocol: 'atls-alert-protocol',
  tooLarge: 'atls-alert-too-large',
  timeout: 'atls-alert-timeout',
  evidenceRejected: 'atls-alert-evidence-rejected',
  internal: 'atls-alert-internal',
  busy: 'atls-alert-busy',
  noCommonFormat: 'atls-alert-no-common-format',
};

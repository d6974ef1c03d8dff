/**
 * An error of OpenSSL, such as `4079…:error:0A00010B:SSL routines:tls_validate_record_header:wrong version number:../deps/…:77:`
 * (ERR_error_string(3) and the source line, as Node.js shows it). Groups: library, reason.
 */
const OPENSSL_ERROR = /^(?:[0-9A-F]+:)?error:[0-9A-F]{8}:([^:]*):[^:]*:([^:]+)/;

/** Reasons with which OpenSSL refuses the first bytes of a peer that does not speak TLS at all. */
const NO_TLS: readonly string[] = ['wrong version number', 'packet length too long', 'http request'];

/** The reason of an OpenSSL error in plain words, without names of functions and files; undefined for another message. */
export function describeOpensslError(message: string): string | undefined {
  const [, library, reason] = OPENSSL_ERROR.exec(message) ?? [];
  if (reason === undefined) return undefined;
  if (library !== 'SSL routines') return reason;
  if (NO_TLS.includes(reason)) return 'the peer does not speak TLS';
  const alert = /^(?:tlsv1|tlsv13|sslv3) alert (.*)$/.exec(reason)?.[1];
  return alert === undefined ? `TLS: ${reason}` : `the peer refused it with the TLS alert "${alert}"`;
}

/** Domain: certificates that carry keys, and certificates signed for requests that proved theirs. */
export { CryptoError, cryptoErrors, type CryptoErrorCode } from './errors.ts';
export { selfSignedCertificate } from './self-signed.ts';
export { signClientCertificate, type Issuer, type RequestedCertificate } from './sign-request.ts';

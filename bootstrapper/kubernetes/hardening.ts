import type { HardeningConfig } from '../../internal/config/index.ts';
import type { KubernetesSettings } from './settings.ts';

/**
 * The defaults of Kubernetes. Clusters that were created by releases without these settings keep the defaults, because
 * their workloads may depend on them.
 */
const UNHARDENED: HardeningConfig = {
  seccompDefault: false,
  podPidsLimit: -1,
  anonymousRequests: 'all',
  eventRateLimit: false,
  serviceExternalIps: true,
  extendedTokens: true,
  strongCiphers: false,
};

/** The lowest version of TLS at which a component of Kubernetes accepts connections. */
export const TLS_MIN_VERSION = 'VersionTLS12';

/**
 * Cipher suites of TLS 1.2 with forward secrecy and authenticated encryption (RFC 9325, section 4.2). Those of
 * TLS 1.3 are always enabled.
 */
export const STRONG_CIPHERS = [
  'TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256',
  'TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256',
  'TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384',
  'TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384',
  'TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305',
  'TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305',
] as const;

/** The hardening of this cluster, with the values for clusters that have no such settings. */
export function hardeningOf({ hardening }: Pick<KubernetesSettings, 'hardening'>): HardeningConfig {
  return hardening ?? UNHARDENED;
}

/** TLS arguments of the API server, the controller manager and the scheduler. */
export function tlsArguments(
  settings: Pick<KubernetesSettings, 'hardening'>,
): readonly { readonly name: string; readonly value: string }[] {
  return [
    { name: 'tls-min-version', value: TLS_MIN_VERSION },
    ...(hardeningOf(settings).strongCiphers
      ? [{ name: 'tls-cipher-suites', value: STRONG_CIPHERS.join(',') }]
      : []),
  ];
}

import { Secret } from '../secret/index.ts';

/**
 * The name of the secret for disk shares, from which signers derive the cluster shares of state disks: 32 bytes, hex. It has no generations: a
 * rotation does not replace it, because every disk that opens with a share of it would stay closed. Clusters of earlier releases have none.
 */
export const DISK_SHARES_FILE = 'disk-shares.key';

const HEX = /^[0-9a-f]{64}\n?$/;

/** The 32 bytes of a secret for disk shares; undefined if the text is malformed. */
export function parseDiskSharesSecret(text: Secret<string>): Secret<Uint8Array> | undefined {
  return HEX.test(text.reveal())
    ? new Secret(new Uint8Array(Buffer.from(text.reveal().trim(), 'hex')))
    : undefined;
}

import { createHash } from 'node:crypto';
import { WatchedKey, type WatchPorts } from '../../internal/etcd/index.ts';
import { formatStage } from '../../internal/keyset/index.ts';
import { CONFIGURATION_KEY, KEYS_KEY, records, type KeysRecord } from '../../internal/records/index.ts';
import { storedConfiguration } from '../curator/index.ts';

/** The stage of the key rotation: "GENERATION/PHASE", empty before the first rotation. */
export function watchKeyStage(ports: WatchPorts): WatchedKey<string> {
  const stageOf = ({ generation, phase }: KeysRecord): string =>
    phase === 'asked' ? `${generation}/asked` : formatStage({ generation, phase });
  return new WatchedKey({
    ...{ ...ports, key: KEYS_KEY },
    read: (entry) => (entry === undefined ? '' : stageOf(records.keys.decode(entry.key, entry.value))),
  });
}

/**
 * The hash of the configuration of the cluster, SHA-256 (hex), empty without one. The hash only tells nodes to fetch
 * the document. The nodes verify the signature of the document.
 */
export function watchConfigurationHash(ports: WatchPorts): WatchedKey<string> {
  const hashOf = (document: Uint8Array): string => createHash('sha256').update(document).digest('hex');
  return new WatchedKey({
    ...{ ...ports, key: CONFIGURATION_KEY },
    read: (entry) => (entry === undefined ? '' : hashOf(storedConfiguration(entry).document)),
  });
}

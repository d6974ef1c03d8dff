import {
  ed25519PubKeyFrom,
  generateEd25519Key,
  ownershipStatement,
  signEd25519,
} from '../../crypto/index.ts';
import { put, type KeySpace, type Write } from '../../etcd/index.ts';
import { CONFIGURATION_KEY, OWNERSHIP_KEY, records, SETTINGS_KEY } from '../../records/index.ts';
import type { TestCluster } from './test-cluster.ts';

const never = new AbortController().signal;

/** The records that an init writes about a cluster, besides its members. */
export interface TestClusterSettings {
  readonly attestation: object;
  readonly join: { readonly policy: string; readonly inventory: readonly object[] };
  readonly bundleManifest?: string;
}

/**
 * Records the owner of the cluster, the settings of its nodes and its join rules. All of them are active when the
 * promise resolves.
 */
export async function recordClusterSettings(
  space: KeySpace,
  cluster: TestCluster,
  description: TestClusterSettings,
): Promise<void> {
  const then = [ownershipOf(cluster), settingsWith(description), configurationWrite(description)];
  await space.commit({ when: [], then }, { signal: never });
}

/** The write of the configuration record only, as an operator changes it. */
export function configurationWrite({
  attestation,
  join,
}: Pick<TestClusterSettings, 'attestation' | 'join'>): Write {
  const document = JSON.stringify({ version: 1, name: 'test', attestation, join });
  const record = { version: 1 as const, document: btoa(document), updatedMs: 1, updatedBy: 'test' };
  return put(CONFIGURATION_KEY, records.configuration.encode(record));
}

function ownershipOf({ clusterId, trust }: TestCluster): Write {
  const ownerKeyPem = generateEd25519Key();
  const statement = ownershipStatement({ clusterId, clusterCaPem: trust.caPem, epoch: 1n });
  const base64 = (bytes: Uint8Array): string => Buffer.from(bytes).toString('base64');
  const ownership = {
    version: 1 as const,
    epoch: 1,
    ownerPubKey: base64(ed25519PubKeyFrom(ownerKeyPem) ?? new Uint8Array()),
    signature: base64(signEd25519(ownerKeyPem, statement)),
    timeMs: 1,
  };
  return put(OWNERSHIP_KEY, records.ownership.encode(ownership));
}

function settingsWith({ bundleManifest = '{}' }: TestClusterSettings): Write {
  const settings = {
    version: 1 as const,
    clusterName: 'test',
    kubernetesVersion: 'v1.34.0',
    podSubnet: '10.244.0.0/16',
    serviceSubnet: '10.96.0.0/12',
    apiServerSans: [],
    bundleManifest,
  };
  return put(SETTINGS_KEY, records.settings.encode(settings));
}

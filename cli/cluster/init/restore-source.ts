import { create } from '@bufbuild/protobuf';
import { ClusterRestoreSchema, ClusterSpecSchema, type ClusterSpec } from '../../../initproto/gen/init_pb.js';
import type { FilePort } from '../../../internal/file/index.ts';
import {
  FIRST_GENERATION,
  followedClusterCas,
  parseKeySet,
  publicKeysOf,
  ROTATION_FILE,
  signedKeysOf,
  type SignedKeys,
} from '../../../internal/keyset/index.ts';
import type { Secret } from '../../../internal/secret/index.ts';
import { saveWorkspaceCa, type CaFile } from '../curator/known-ca.ts';
import type { UploadItem, UploadManifest, UploadStore } from './upload.ts';

/** A snapshot of etcd in a file of this workstation. */
export interface SnapshotSource {
  readonly sha256: string;
  readonly sizeBytes: number;
  /** Reads the file from an offset on. */
  readonly read: UploadStore['read'];
}

/** The content of a backup, as the init of the restored cluster needs it. */
export interface RestoreSource {
  /** The epoch of the restored cluster. */
  readonly epoch: number;
  readonly state: SnapshotSource;
  readonly kubernetes: SnapshotSource;
  /** The keys that control planes share, by name. */
  readonly sharedKeys: Secret<Readonly<Record<string, string>>>;
  /** Machines that this workspace knows and the backup may not: the restored cluster refuses them too. */
  readonly knownMachines: readonly {
    readonly identity: string;
    readonly nodeId: string;
    readonly name: string;
  }[];
  /** Workers of the backup that stay members. */
  readonly keptWorkers: readonly { readonly nodeId: string; readonly name: string }[];
}

/** The snapshots as the components that the machine lacks. */
export function snapshotUploads({ state, kubernetes }: RestoreSource): {
  readonly manifest: UploadManifest;
  readonly store: UploadStore;
} {
  const item = (name: string, { sha256, sizeBytes }: SnapshotSource): UploadItem => ({
    ...{ name, sha256, sizeBytes },
    scope: 'controlplane',
  });
  const components = [item('state etcd', state), item('Kubernetes etcd', kubernetes)];
  const find = (sha256: string): SnapshotSource | undefined =>
    [state, kubernetes].find((each) => each.sha256 === sha256);
  return {
    manifest: { name: 'backup', components },
    store: {
      has: (sha256) => Promise.resolve(find(sha256) !== undefined),
      read: (sha256, options) => {
        const source = find(sha256);
        if (source === undefined) throw new TypeError(`snapshot ${sha256} expected`);
        return source.read(sha256, options);
      },
    },
  };
}

/**
 * The specification with the content of the backup. The state file contains the specification without this content,
 * because the keys are never stored there.
 */
export function withRestore(spec: ClusterSpec, restore: RestoreSource | undefined): ClusterSpec {
  if (restore === undefined) return spec;
  return create(ClusterSpecSchema, {
    ...spec,
    restore: create(ClusterRestoreSchema, {
      epoch: BigInt(restore.epoch),
      stateSnapshotSha256: restore.state.sha256,
      kubernetesSnapshotSha256: restore.kubernetes.sha256,
      sharedKeys: { ...restore.sharedKeys.reveal() },
      knownMachines: restore.knownMachines.map((each) => ({ ...each })),
      keptWorkers: restore.keptWorkers.map((each) => ({ ...each })),
    }),
  });
}

/** The signed description of the shared keys in a backup; undefined if these keys were never rotated. */
export function signedKeysIn({ sharedKeys }: RestoreSource): SignedKeys | undefined {
  const text = sharedKeys.reveal()[ROTATION_FILE];
  return text === undefined
    ? undefined
    : signedKeysOf(publicKeysOf(parseKeySet('the keys in the backup', text)));
}

/**
 * Saves the generation of the CA of a restored cluster, which is a floor for the provisioning of machines and for this workspace. Nothing
 * is saved if the keys in the backup were never rotated.
 * @param restored.caPem the CA that the first machine has returned
 */
export async function saveRestoredCa(
  files: Pick<FilePort, 'writeAtomic'>,
  file: CaFile,
  { caPem, restore }: { readonly caPem: string; readonly restore: RestoreSource | undefined },
): Promise<void> {
  const keys = restore && signedKeysIn(restore);
  if (keys === undefined) return;
  const own = followedClusterCas(caPem, keys, { trustedPem: undefined, generation: FIRST_GENERATION });
  if (own.length === 0) return;
  const generation = Math.min(...own.map((each) => each.generation));
  await saveWorkspaceCa(files, file, { trustedPem: caPem, generation, floors: {} });
}

import { create } from '@bufbuild/protobuf';
import { ClusterRestoreSchema, ClusterSpecSchema, type ClusterSpec } from '../../../initproto/gen/init_pb.js';
import type { Secret } from '../../../internal/secret/index.ts';
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

/** The specification with the content of the backup. The state file has it without: the keys are never stored there. */
export function withRestore(spec: ClusterSpec, restore: RestoreSource | undefined): ClusterSpec {
  if (restore === undefined) return spec;
  return create(ClusterSpecSchema, {
    ...spec,
    restore: create(ClusterRestoreSchema, {
      epoch: BigInt(restore.epoch),
      stateSnapshotSha256: restore.state.sha256,
      kubernetesSnapshotSha256: restore.kubernetes.sha256,
      sharedKeys: { ...restore.sharedKeys.reveal() },
    }),
  });
}

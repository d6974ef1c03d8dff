import { MAX_CONFIG_BYTES, parseWrittenConfig, type ClusterConfig } from '../../internal/config/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { WorkspaceError } from './errors.ts';
import type { WorkspaceLayout } from './layout.ts';

/** Reads and validates cluster.yaml. @throws WorkspaceError `workspace-missing`, ConfigError `config-invalid` */
export async function readConfig(files: FilePort, layout: WorkspaceLayout): Promise<ClusterConfig> {
  const raw = await files.read(layout.config, MAX_CONFIG_BYTES);
  if (raw === undefined) throw missing(layout);
  return parseWrittenConfig(Buffer.from(raw).toString('utf8'), layout.config);
}

/** Requires that the directory is a workspace: it has a cluster.yaml. @throws WorkspaceError `workspace-missing` */
export async function requireConfig(files: Pick<FilePort, 'stat'>, layout: WorkspaceLayout): Promise<void> {
  if ((await files.stat(layout.config)) === undefined) throw missing(layout);
}

function missing({ config }: WorkspaceLayout): WorkspaceError {
  return new WorkspaceError('workspace-missing', `${config} does not exist`);
}

import { MAX_CONFIG_BYTES, parseWrittenConfig, type ClusterConfig } from '../../internal/config/index.ts';
import type { FilePort } from '../../internal/file/index.ts';
import { WorkspaceError } from './errors.ts';
import type { WorkspaceLayout } from './layout.ts';

/** Reads and validates cluster.yaml. @throws WorkspaceError `workspace-missing`, ConfigError `config-invalid` */
export async function readConfig(files: FilePort, layout: WorkspaceLayout): Promise<ClusterConfig> {
  const raw = await files.read(layout.config, MAX_CONFIG_BYTES);
  if (raw === undefined) {
    throw new WorkspaceError('workspace-missing', `${layout.config} does not exist`);
  }
  return parseWrittenConfig(Buffer.from(raw).toString('utf8'), layout.config);
}

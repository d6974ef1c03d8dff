import {
  clusterConfigJsonSchema,
  LOCAL_NETWORKS,
  parseClusterConfig,
  renderClusterConfig,
  type ChartConfig,
  type JoinConfig,
} from '../../../internal/config/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { planCharts } from '../../charts/index.ts';
import { createWorkspace, layoutOf, readConfig, type CreatedWorkspace } from '../../workspace/index.ts';
import { chooseAttestation } from './choose-attestation.ts';
import { openWorkspace } from '../open-workspace.ts';

/** Contents of a new cluster.yaml; undefined members get their defaults. */
export interface GenerateOptions {
  readonly name: string;
  readonly kubernetesVersion?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly fingerprint?: string | undefined;
  /** Use network ranges for a local cluster, which must not collide with those of other networks. */
  readonly local?: boolean;
  readonly charts?: readonly Partial<ChartConfig>[] | undefined;
  /** Whether ordinary pods may run on the first node; default true. */
  readonly runsWorkloads?: boolean;
  readonly join?: JoinConfig | undefined;
  /** The section `attestation` of cluster.yaml. */
  readonly attestation?: Readonly<Record<string, unknown>> | undefined;
}

/** Creates the missing files of a workspace. Existing files are not changed. @throws WorkspaceError `workspace-key-lost` */
export async function generateWorkspace(
  context: CommandContext,
  options: GenerateOptions,
): Promise<CreatedWorkspace> {
  await using workspace = await openWorkspace(context, 'cluster config generate');
  const { local = false, ...settings } = options;
  const configText = renderClusterConfig({ ...settings, networks: local ? LOCAL_NETWORKS : undefined });
  // Parses the generated text before it is written, so that cluster.yaml is always valid.
  parseClusterConfig(configText, workspace.layout.config);
  return await createWorkspace(context.ports.files, workspace.layout, { configText, state: workspace.state });
}

/** `cluster config generate`. */
export async function runConfigGenerate(
  context: CommandContext,
  { variants, ...options }: Omit<GenerateOptions, 'attestation'> & { readonly variants?: string | undefined },
): Promise<void> {
  // An existing file is not changed: no prompt is needed.
  const exists = await context.ports.files.stat(layoutOf(context.paths.workspace).config);
  const attestation = exists === undefined ? await chooseAttestation(context, variants) : undefined;
  const { ownerKey, created } = await generateWorkspace(context, { ...options, attestation });
  const { workspace } = context.paths;
  const data = { workspace, created, ownerPublicKey: ownerKey.pubKeyBase64 };
  context.host.result(data, () =>
    [
      created.length === 0
        ? `Workspace ${workspace} is complete; nothing was changed.`
        : `Created:\n${created.map((path) => `  ${path}`).join('\n')}`,
      '',
      'Back up owner-key.pem and master-secret.json: without them the cluster is lost.',
      `Owner key, for ownerKeys in /etc/cluster/provisioning.json of each machine:\n  ${ownerKey.pubKeyBase64}`,
      'To generate the provisioning file: cluster provisioning generate',
      ...(attestation === undefined ? [] : [evidenceLine(attestation)]),
      '',
      'Next: cluster init --node ADDRESS --fingerprint sha256:…',
    ].join('\n'),
  );
}

function evidenceLine({ variants }: Readonly<Record<string, unknown>>): string {
  const words = Array.isArray(variants) ? variants.join(', ') : '';
  return `Accepted evidence: ${words} (attestation.variants in cluster.yaml)`;
}

/** `cluster config validate`. */
export async function runConfigValidate(context: CommandContext): Promise<void> {
  const layout = layoutOf(context.paths.workspace);
  const config = await readConfig(context.ports.files, layout);
  planCharts(config, { kind: 'all' }); // Also finds cycles of dependencies between charts.
  context.host.result({ path: layout.config, valid: true, config }, () => `${layout.config} is valid.`);
}

/** `cluster config schema`. */
export function runConfigSchema(context: CommandContext): void {
  const schema = clusterConfigJsonSchema();
  context.host.result(schema, () => JSON.stringify(schema, undefined, 2));
}

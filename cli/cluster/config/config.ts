import {
  clusterConfigJsonSchema,
  LOCAL_NETWORKS,
  parseWrittenConfig,
  renderClusterConfig,
  type ChartConfig,
  type ClusterConfig,
  type JoinConfig,
  type LocalFamilies,
} from '../../../internal/config/index.ts';
import type { CommandContext } from '../../app/command.ts';
import { planCharts } from '../../charts/index.ts';
import {
  createWorkspace,
  isSealedFile,
  layoutOf,
  readConfig,
  type CreatedWorkspace,
} from '../../workspace/index.ts';
import { chooseAttestation } from './choose-attestation.ts';
import { ClusterError } from '../errors.ts';
import { openWorkspace } from '../open-workspace.ts';

/** Contents of a new cluster.yaml; undefined members get their defaults. */
export interface GenerateOptions {
  readonly name: string;
  readonly kubernetesVersion?: string | undefined;
  readonly endpoint?: string | undefined;
  readonly fingerprint?: string | undefined;
  /** Use network ranges for a local cluster, which must not collide with those of other networks. */
  readonly local?: boolean;
  /** The families of these ranges; default: IPv4. */
  readonly localFamilies?: LocalFamilies | undefined;
  readonly charts?: readonly Partial<ChartConfig>[] | undefined;
  /** Whether ordinary pods may run on the first node; default true. */
  readonly runsWorkloads?: boolean;
  readonly join?: JoinConfig | undefined;
  /** The section `attestation` of cluster.yaml. */
  readonly attestation?: Readonly<Record<string, unknown>> | undefined;
  /** Encrypt the owner key and the master secret with a passphrase. */
  readonly encrypt?: boolean | undefined;
}

const DEFAULT_NAME = 'cluster';

/** The flags of `cluster config generate`; undefined where not given. */
export type GenerateFlags = Partial<Omit<GenerateOptions, 'attestation' | 'localFamilies'>> & {
  /** Comma-separated attestation variants. */
  readonly variants?: string | undefined;
};

/** Creates the missing files of a workspace. Existing files are not changed. @throws WorkspaceError `workspace-key-lost` */
export async function generateWorkspace(
  context: CommandContext,
  options: GenerateOptions,
): Promise<CreatedWorkspace> {
  const { local = false, localFamilies = 'ipv4', encrypt = false, ...settings } = options;
  const configText = renderClusterConfig({
    ...settings,
    networks: local ? LOCAL_NETWORKS[localFamilies] : undefined,
  });
  // Parses the generated text before anything is written, so that cluster.yaml is always valid.
  parseWrittenConfig(configText, layoutOf(context.paths.workspace).config);
  await using workspace = await openWorkspace(context, 'cluster config generate');
  return await createWorkspace(context, workspace.layout, { configText, encrypt, state: workspace.state });
}

/** `cluster config generate`. @throws ClusterError `cluster-config-exists` */
export async function runConfigGenerate(context: CommandContext, options: GenerateFlags): Promise<void> {
  const layout = layoutOf(context.paths.workspace);
  const exists = (await context.ports.files.stat(layout.config)) !== undefined;
  // An existing file is not changed: no prompt is needed.
  if (exists) refuseOtherFlags(await readConfig(context.ports.files, layout), options, layout.config);
  const attestation = exists ? undefined : await chooseAttestation(context, options.variants);
  const { ownerKey, created } = await generateWorkspace(context, {
    ...options,
    name: options.name ?? DEFAULT_NAME,
    attestation,
  });
  const { workspace } = context.paths;
  const encrypted = await isSealedFile(context.ports.files, layout.ownerKey);
  const data = { workspace, created, encrypted, ownerPublicKey: ownerKey.pubKeyBase64 };
  context.host.result(data, () =>
    [
      created.length === 0
        ? `Workspace ${workspace} is complete; nothing was changed.`
        : `Created:\n${created.map((path) => `  ${path}`).join('\n')}`,
      '',
      `Back up owner-key.pem and master-secret.json${encrypted ? ', and remember their passphrase' : ''}: without them the cluster is lost.`,
      `Owner key, for ownerKeys in /etc/cluster/provisioning.json of each machine:\n  ${ownerKey.pubKeyBase64}`,
      ...(attestation === undefined ? [] : [evidenceLine(attestation)]),
      '',
      'Next:',
      '  cluster provisioning generate --out provisioning.json',
      '  copy it to the first machine as /etc/cluster/provisioning.json, and restart bootstrapper.service there',
      '  cluster init --node ADDRESS --fingerprint sha256:…',
      '  for the other machines: cluster node cloud-init --format provisioning',
    ].join('\n'),
  );
}

/** An existing cluster.yaml is never changed, so a flag that asks for a different value is refused. */
function refuseOtherFlags(config: ClusterConfig, flags: GenerateFlags, path: string): void {
  const { podSubnet } = config.networking;
  const variants = flags.variants?.split(',').map((each) => each.trim());
  const differences = [
    ['--name', flags.name, config.name],
    ['--kubernetes-version', flags.kubernetesVersion, config.kubernetesVersion],
    ['--node', flags.endpoint, config.firstNode.endpoint],
    ['--fingerprint', flags.fingerprint, config.firstNode.fingerprint],
    ['--local', flags.local === true ? LOCAL_NETWORKS.ipv4.podSubnet : undefined, podSubnet],
    ['--attestation', variants?.toSorted().join(), config.attestation.variants.toSorted().join()],
  ].flatMap(([flag, asked, is]) =>
    asked === undefined || asked === is ? [] : [`${flag} ${asked} (the file has ${is ?? 'none'})`],
  );
  if (differences.length === 0) return;
  throw new ClusterError(
    'cluster-config-exists',
    `generating ${path}: it exists and differs from ${differences.join(', ')}`,
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

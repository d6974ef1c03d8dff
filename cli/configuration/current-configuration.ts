import { stringify } from 'yaml';
import {
  ConfigError,
  MAX_CONFIG_BYTES,
  parseClusterConfig,
  parseClusterPart,
  type ClusterConfig,
  type Json,
} from '../../internal/config/index.ts';
import type { CommandContext } from '../app/command.ts';
import { printable, printableLines } from '../../internal/printable/index.ts';
import { layoutOf, readConfig } from '../workspace/index.ts';
import { callCurator } from '../cluster/index.ts';

/** The configuration that the cluster keeps. */
export interface CurrentConfiguration {
  /** The text as the cluster has stored it. */
  readonly text: string;
  /** The parsed configuration; undefined if this version cannot read it. Then `problem` has the reason. */
  readonly document: Json | undefined;
  readonly problem: ConfigError | undefined;
  readonly revision: bigint;
  readonly updatedMs: number;
  readonly updatedBy: string;
}

/** `cluster config show`: the configuration, who changed it and when; as stored if this version cannot read it. */
export async function runConfigShow(context: CommandContext): Promise<void> {
  const now = await readCurrentConfiguration(context);
  const { document, problem, text, revision, updatedMs, updatedBy } = now;
  const content =
    problem === undefined ? { configuration: document } : { problem: problem.message, stored: text };
  context.host.result({ revision, updatedMs, updatedBy, ...content }, () =>
    renderCurrentConfiguration(now).trimEnd(),
  );
}

/** Reads the configuration of the cluster. */
export async function readCurrentConfiguration(context: CommandContext): Promise<CurrentConfiguration> {
  const answer = await callCurator(context, ({ curator }) => curator.getConfiguration({}));
  const text = Buffer.from(answer.document).toString('utf8');
  return {
    text,
    ...parsed(text),
    revision: answer.revision,
    updatedMs: Number(answer.updatedMs),
    updatedBy: answer.updatedBy,
  };
}

/**
 * The configuration in cluster.yaml of the workspace, or that of the cluster if there is no such file.
 * @throws ConfigError
 */
export async function fileOrClusterConfiguration(context: CommandContext): Promise<ClusterConfig> {
  const layout = layoutOf(context.paths.workspace);
  if ((await context.ports.files.stat(layout.config)) !== undefined)
    return readConfig(context.ports.files, layout);
  const { text } = await readCurrentConfiguration(context);
  return parseClusterConfig(text, 'the configuration of the cluster');
}

/** The configuration as a file that can be edited and applied: everything besides the document is in comments. */
export function renderCurrentConfiguration({
  text,
  document,
  problem,
  revision,
  updatedMs,
  updatedBy,
}: CurrentConfiguration): string {
  const when = new Date(updatedMs).toISOString();
  const head = `# Revision ${revision}, by ${printable(updatedBy) || '<none>'} at ${when}\n`;
  if (problem === undefined) return head + stringify(document, { lineWidth: 0 });
  const why = `This version cannot read the stored configuration: ${problem.message}`.split('\n');
  return `${head}${why.map((line) => `# ${printable(line)}\n`).join('')}${linesOf(text)}\n`;
}

function parsed(text: string): Pick<CurrentConfiguration, 'document' | 'problem'> {
  try {
    return { document: parseClusterPart(text, 'the configuration of the cluster'), problem: undefined };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { document: undefined, problem: error };
  }
}

/** The stored text, without control characters. Curators store one line of JSON, which is shown as YAML. */
function linesOf(text: string): string {
  const raw = printableLines(text, { maxChars: MAX_CONFIG_BYTES });
  try {
    return stringify(JSON.parse(raw), { lineWidth: 0 }).trimEnd();
  } catch {
    return raw;
  }
}

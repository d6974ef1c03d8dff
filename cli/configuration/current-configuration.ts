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

/** What the cluster keeps now. */
export interface CurrentConfiguration {
  /** As it is stored. */
  readonly text: string;
  /** undefined: this program cannot read it, for `problem`. */
  readonly document: Json | undefined;
  readonly problem: ConfigError | undefined;
  readonly revision: bigint;
  readonly updatedMs: number;
  readonly updatedBy: string;
}

/** `cluster config show`: what is in force, who put it there and when; as it is stored where it cannot be read. */
export async function runConfigShow(context: CommandContext): Promise<void> {
  const now = await readCurrentConfiguration(context);
  const { document, problem, text, revision, updatedMs, updatedBy } = now;
  const said =
    problem === undefined ? { configuration: document } : { problem: problem.message, stored: text };
  context.host.result({ revision, updatedMs, updatedBy, ...said }, () =>
    renderCurrentConfiguration(now).trimEnd(),
  );
}

export async function readCurrentConfiguration(context: CommandContext): Promise<CurrentConfiguration> {
  const answer = await callCurator(context, (curator, call) => curator.getConfiguration({}, call));
  const text = Buffer.from(answer.document).toString('utf8');
  return {
    text,
    ...judged(text),
    revision: answer.revision,
    updatedMs: Number(answer.updatedMs),
    updatedBy: answer.updatedBy,
  };
}

/** What counts here: the own file, or where there is none what is in force in the cluster. @throws ConfigError */
export async function fileOrClusterConfiguration(context: CommandContext): Promise<ClusterConfig> {
  const layout = layoutOf(context.paths.workspace);
  if ((await context.ports.files.stat(layout.config)) !== undefined)
    return readConfig(context.ports.files, layout);
  const { text } = await readCurrentConfiguration(context);
  return parseClusterConfig(text, 'the configuration of the cluster');
}

/** A file that can be edited and applied again: all that is not the document is comments. */
export function renderCurrentConfiguration({
  text,
  document,
  problem,
  revision,
  updatedMs,
  updatedBy,
}: CurrentConfiguration): string {
  const when = new Date(updatedMs).toISOString();
  const head = `# Revision ${revision}, by ${printable(updatedBy) || 'nobody known'} at ${when}\n`;
  if (problem === undefined) return head + stringify(document, { lineWidth: 0 });
  const why = `This version cannot read what is stored: ${problem.message}`.split('\n');
  return `${head}${why.map((line) => `# ${printable(line)}\n`).join('')}${linesOf(text)}\n`;
}

function judged(text: string): Pick<CurrentConfiguration, 'document' | 'problem'> {
  try {
    return { document: parseClusterPart(text, 'the configuration of the cluster'), problem: undefined };
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error;
    return { document: undefined, problem: error };
  }
}

/** As it is stored, but for what a terminal would obey; the one line that the curator makes of a document as many. */
function linesOf(text: string): string {
  const raw = printableLines(text, { maxChars: MAX_CONFIG_BYTES });
  try {
    return stringify(JSON.parse(raw), { lineWidth: 0 }).trimEnd();
  } catch {
    return raw;
  }
}

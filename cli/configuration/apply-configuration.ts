import { join } from 'node:path';
import {
  canonicalJson,
  clusterPartOf,
  immutableDifferences,
  MAX_CONFIG_BYTES,
  mergeThreeWay,
  parseWrittenConfig,
  positionOf,
  registriesFrom,
  serversWithCredentials,
  type Conflict,
  type Json,
  type JsonPath,
  type Merge,
} from '../../internal/config/index.ts';
import { CodedError } from '../../internal/errors/index.ts';
import type { ProcessPort } from '../../internal/exec/index.ts';
import type { CommandContext } from '../app/command.ts';
import { KubeClient } from '../../internal/kube/index.ts';
import { storeLogins } from '../registries/index.ts';
import { confirmLoss, renderLosses } from '../loss/index.ts';
import { printable } from '../../internal/printable/index.ts';
import { openChangeSigner, saveSubmittedDocuments } from '../sign/index.ts';
import { layoutOf } from '../workspace/index.ts';
import { readLastApplied, saveLastApplied } from './last-applied.ts';
import { droppedSettings } from './dropped-settings.ts';
import {
  readCurrentConfiguration,
  renderCurrentConfiguration,
  type CurrentConfiguration,
} from './current-configuration.ts';
import { requireSignedConfiguration } from './signed-configuration.ts';
import { readCaller, callCurator, newMutation, readKubeAccess } from '../cluster/index.ts';
import { ConfigurationError } from './errors.ts';
import { AppError } from '../app/errors.ts';

/** Maximum number of attempts to merge the configuration: another client may change it meanwhile. */
const TRIES = 5;
const MAX_SHOWN = 60;

/** A configuration file of the operator: its text, and the settings in it that the cluster stores. */
interface Mine {
  readonly path: string;
  readonly text: string;
  readonly document: Json;
}

/** Arguments of `cluster config apply`. */
export interface ApplyOptions {
  /** Default: cluster.yaml of the workspace. */
  readonly file: string | undefined;
  readonly dryRun: boolean;
  /** The operator confirmed the loss of deleted settings with `--yes`. */
  readonly yes: boolean;
  /**
   * The revision that the file is based on. Needed in a workspace that has not applied a configuration yet.
   */
  readonly onto: bigint | undefined;
}

/**
 * `cluster config apply`: applies what changed in the file since it was last applied, and keeps the changes
 * of other operators.
 * @throws ConfigurationError, AppError `app-usage`
 */
export async function runConfigApply(context: CommandContext, options: ApplyOptions): Promise<void> {
  const mine = await readMine(context, options.file ?? layoutOf(context.paths.workspace).config);
  const member = await readCaller(context);
  const applied = await readLastApplied(context.ports.files, member);
  const done = await applyMerged(context, mine, {
    dryRun: options.dryRun,
    yes: options.yes,
    replaces: options.onto,
    baseFor: (current) => {
      if (options.onto === current.revision) return current.document;
      if (applied !== undefined) return applied;
      if (!current.updatedBy.startsWith('operator:')) return current.document; // unchanged since init
      throw unknownBase(mine, current);
    },
  });
  if (!options.dryRun) {
    await saveLastApplied(context.ports.files, member, mine.document);
    await storeRegistryLogins(context, done);
  }
  report(context, done, options.dryRun);
}

/** `cluster config edit`: opens the configuration of the cluster in an editor and applies it when the editor is closed. */
export async function runConfigEdit(
  context: CommandContext,
  processes: Pick<ProcessPort, 'runAttached'>,
): Promise<void> {
  const { ports, env, signal, paths } = context;
  if (!context.host.interactive)
    throw new AppError('app-usage', 'editing the configuration needs a terminal', {
      fix: 'Run `cluster config edit` at a terminal, or change cluster.yaml and run `cluster config apply`.',
    });
  const start = await readCurrentConfiguration(context);
  const path = join(paths.workspace, `.configuration-${start.revision}.yaml`);
  await ports.files.createExclusive(path, renderCurrentConfiguration(start), { mode: 0o600 }); // continues an interrupted edit if the file exists
  const editor = (env['VISUAL'] ?? env['EDITOR'] ?? 'vi').split(' ').filter((word) => word !== '');
  const known = Object.entries(env).filter((entry): entry is [string, string] => entry[1] !== undefined);
  const exit = await processes.runAttached({
    argv: [editor[0] ?? 'vi', ...editor.slice(1), path],
    env: Object.fromEntries(known),
    signal,
  });
  if (exit !== 0)
    throw new AppError(
      'app-usage',
      `editor ${editor.join(' ')} exited with ${exit}; the edit is kept in ${path}`,
    );
  const mine = await readMine(context, path);
  const done = await applyMerged(context, mine, {
    dryRun: false,
    yes: false,
    replaces: start.document === undefined ? start.revision : undefined,
    baseFor: (current) => {
      // The editor showed a configuration that could not be parsed, and another client has replaced it
      // meanwhile.
      if (start.document === undefined) throw unknownBase(mine, current);
      return start.document;
    },
  });
  await ports.files.remove(path);
  await storeRegistryLogins(context, done);
  report(context, done, false);
}

/**
 * Gives nodes the user names and passwords that the configuration now needs, also if only a password has changed. If an
 * earlier run was interrupted before this step, running the same command again completes it.
 */
async function storeRegistryLogins(context: CommandContext, { changes, merged }: Applied): Promise<void> {
  const { ports, paths, signal } = context;
  const registries = registriesFrom(canonicalJson(merged));
  const isConcerned =
    serversWithCredentials(registries).length > 0 || changes.some(([section]) => section === 'registries');
  if (!isConcerned) return;
  const layout = layoutOf(paths.workspace);
  using client = new KubeClient(await readKubeAccess(ports.files, layout), ports);
  await storeLogins({ client, files: ports.files, layout, registries, signal });
}

interface Applied {
  readonly revision: bigint;
  readonly changes: readonly JsonPath[];
  readonly losses: readonly string[];
  /** The configuration that the cluster now has. */
  readonly merged: Json;
}

interface Merging {
  readonly dryRun: boolean;
  readonly yes: boolean;
  /** Revision of an unreadable configuration that the operator has seen and wants to replace as a whole. */
  readonly replaces: bigint | undefined;
  readonly baseFor: (current: Readable) => Json;
}

type Readable = CurrentConfiguration & { readonly document: Json };

async function applyMerged(context: CommandContext, mine: Mine, options: Merging): Promise<Applied> {
  let base: Json | undefined;
  for (let tries = 1; ; tries++) {
    const current = await readCurrentConfiguration(context);
    if (isReadable(current)) base ??= options.baseFor(current); // computed only once: other clients made all changes after this revision
    const { changes, merged } = merging(mine, current, { base, replaces: options.replaces });
    const losses = lossesOf(current, merged);
    if (options.dryRun || changes.length === 0)
      return { revision: current.revision, changes, losses, merged };
    await confirmLoss(context, { doing: `applying ${mine.path}`, losses, yes: options.yes });
    try {
      const after = canonicalJson(merged);
      const document = Buffer.from(after, 'utf8');
      const signer = await openChangeSigner(context);
      // The owner has seen the file, but not what the merge keeps of the active configuration.
      if (after !== canonicalJson(mine.document))
        requireSignedConfiguration(signer, current, `applying ${mine.path}`);
      const documents = (await signer?.signAll([{ kind: 'policy', before: current.text, after }])) ?? [];
      const request = { document, baseRevision: current.revision, documents, mutation: newMutation() };
      const { revision } = await callCurator(context, ({ curator }) => curator.updateConfiguration(request));
      await saveSubmittedDocuments(context, documents);
      return { revision, changes, losses, merged };
    } catch (error) {
      const isStale = error instanceof CodedError && error.code === 'curator-configuration-stale';
      if (!isStale || tries === TRIES) throw error;
    }
  }
}

/**
 * Merges the file into the configuration of the cluster. An unreadable configuration can only be replaced as
 * a whole.
 */
function merging(
  mine: Mine,
  current: CurrentConfiguration,
  { base, replaces }: { readonly base: Json | undefined; readonly replaces: bigint | undefined },
): Pick<Merge, 'changes' | 'merged'> {
  if (isReadable(current) && base !== undefined) {
    const merge = mergeThreeWay({ base, mine: mine.document, current: current.document });
    refuse(mine, current, merge);
    return merge;
  }
  if (replaces === current.revision) return { changes: [[]], merged: mine.document };
  throw new ConfigurationError(
    'configuration-unreadable',
    `applying ${mine.path} to revision ${current.revision}`,
    {
      cause: current.problem,
    },
  );
}

/** Settings that would be deleted. */
function lossesOf(current: CurrentConfiguration, merged: Json): readonly string[] {
  if (!isReadable(current)) return ['the whole configuration, which this version cannot read'];
  return droppedSettings(current.document, merged).map(
    (each) => `the setting ${printable(each)}, which the file does not contain any more`,
  );
}

function isReadable(current: CurrentConfiguration): current is Readable {
  return current.document !== undefined;
}

function unknownBase(mine: Mine, current: CurrentConfiguration): ConfigurationError {
  return new ConfigurationError(
    'configuration-base-unknown',
    `applying ${mine.path}: ${printable(current.updatedBy)} has changed the configuration since init, last in revision ${current.revision}`,
  );
}

/**
 * Refuses a merge that changes immutable settings or has conflicts. Immutable settings come first, because no
 * choice of the operator resolves them.
 */
function refuse(mine: Mine, current: Readable, { conflicts, merged }: Merge): void {
  const fixed = immutableDifferences(current.document, merged);
  if (fixed.length > 0)
    throw new ConfigurationError(
      'configuration-immutable',
      `applying ${mine.path}:\n${linesOf(mine, fixed, nameOf)}`,
      {
        details: { paths: fixed },
      },
    );
  if (conflicts.length === 0) return;
  const shown = conflicts.map((conflict) => `${placeIn(mine, conflict.path)}: ${conflictText(conflict)}`);
  throw new ConfigurationError(
    'configuration-conflict',
    `applying ${mine.path} to revision ${current.revision} of ${printable(current.updatedBy)}:\n${shown.join('\n')}`,
    { details: { conflicts, revision: String(current.revision) } },
  );
}

function conflictText({ path, base, mine, current }: Conflict): string {
  return `${nameOf(path)}: file ${short(mine)}, cluster ${short(current)}, before ${short(base)}`;
}

function linesOf(mine: Mine, paths: readonly JsonPath[], text: (path: JsonPath) => string): string {
  return paths.map((path) => `${placeIn(mine, path)}: ${text(path)}`).join('\n');
}

function placeIn({ path, text }: Mine, at: JsonPath): string {
  const { line, column } = positionOf(text, at);
  return `${path}:${line}:${column}`;
}

function nameOf(path: JsonPath): string {
  return printable(path.join('.')) || 'the whole file';
}

function short(value: Json | undefined): string {
  if (value === undefined) return '<none>';
  const text = JSON.stringify(value);
  return printable(text.length > MAX_SHOWN ? `${text.slice(0, MAX_SHOWN)}…` : text);
}

async function readMine(context: CommandContext, path: string): Promise<Mine> {
  const raw = await context.ports.files.read(path, MAX_CONFIG_BYTES);
  if (raw === undefined) throw new AppError('app-usage', `file ${path} not found`);
  const text = Buffer.from(raw).toString('utf8');
  return { path, text, document: clusterPartOf(parseWrittenConfig(text, path)) };
}

function report(context: CommandContext, { revision, changes, losses }: Applied, dryRun: boolean): void {
  const names = changes.map(nameOf);
  context.host.result({ revision, changes: names, losses, dryRun }, () => {
    if (names.length === 0) return `No changes: revision ${revision} is the same.`;
    const head = dryRun ? 'Would change:' : `Applied as revision ${revision}. Changed:`;
    const taken = losses.length === 0 ? [] : ['Consequences:', renderLosses(losses)];
    return [head, ...names.map((name) => `  ${name}`), ...(dryRun ? taken : [])].join('\n');
  });
}

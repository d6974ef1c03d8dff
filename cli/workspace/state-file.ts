import { z } from 'zod';
import type { FilePort } from '../../internal/file/index.ts';
import { WorkspaceError } from './errors.ts';
import type { WorkspaceLayout } from './layout.ts';

/** Version of the format. What a newer program wrote is refused, never guessed at. */
const STATE_VERSION = 1;
const MAX_STATE_BYTES = 8 * 1024 * 1024;

const resultSchema = z.strictObject({
  clusterId: z.string(),
  nodeId: z.string(),
  nodeName: z.string(),
  clusterCaPem: z.string(),
  ownerCertPem: z.string(),
  kubernetesCaPem: z.string(),
  adminCertPem: z.string(),
  apiEndpoints: z.array(z.string()),
  curatorEndpoints: z.array(z.string()),
  epoch: z.string().regex(/^[0-9]+$/),
});

/** Which machine the init was begun with, as its evidence showed: it is held to that from then on. */
const machineSchema = z.strictObject({
  /** Kind of evidence, e.g. "tpm". */
  variant: z.string(),
  /** E.g. "tpm-ek:90ab…". */
  identity: z.string(),
  /** Name of the attestation key (hex) and the endorsement key that activation tied it to. */
  attestationKey: z.string().optional(),
  endorsementKey: z.string().optional(),
  /** The TPM's clock when it was last seen: a copy of its state cannot keep the same one. */
  sighting: z
    .strictObject({
      clockMs: z.string().regex(/^[0-9]+$/),
      resetCount: z.int(),
      restartCount: z.int(),
      safe: z.boolean(),
      seenAtMs: z.int(),
    })
    .optional(),
});

const initSchema = z.strictObject({
  /** UUID of the job on the node. */
  id: z.uuid(),
  endpoint: z.string(),
  /** "sha256:HEX" of the machine's key: the job is taken up again with this machine only. */
  fingerprint: z.string(),
  machine: machineSchema.optional(),
  /** SHA-256 of what the operator asked for; another one is another init. */
  requestHash: z.string(),
  startedMs: z.int(),
  /** requested: saved, perhaps sent. granted: the result is here. acknowledged: the node knows that it is. */
  stage: z.enum(['requested', 'granted', 'acknowledged']),
  /** Until the kubeconfig is on disk: the exact specification, and the key that it asks a certificate for. */
  request: z.strictObject({ specBase64: z.string(), adminKeyPem: z.string() }).optional(),
  result: resultSchema.optional(),
});

const chartSchema = z.strictObject({
  /** SHA-256 over the chart's bytes, version, namespace and values. */
  inputsHash: z.string(),
  installedMs: z.int(),
});

const stateSchema = z.strictObject({
  version: z.literal(STATE_VERSION),
  /** Version of the program that wrote it, for messages. */
  writtenBy: z.string(),
  init: initSchema.optional(),
  charts: z.record(z.string(), chartSchema).default({}),
});

export type WorkspaceState = z.output<typeof stateSchema>;
export type InitState = z.output<typeof initSchema>;
export type MachineRecord = z.output<typeof machineSchema>;
export type InitStateResult = z.output<typeof resultSchema>;

/** `state.json`: read once, replaced whole at each step, by the holder of the workspace lock only. */
export class StateFile {
  readonly #files: FilePort;
  readonly #path: string;
  #value: WorkspaceState;

  private constructor(files: FilePort, path: string, value: WorkspaceState) {
    this.#files = files;
    this.#path = path;
    this.#value = value;
  }

  static async read(
    files: FilePort,
    layout: WorkspaceLayout,
    options: { readonly programVersion: string },
  ): Promise<StateFile> {
    const raw = await files.read(layout.state, MAX_STATE_BYTES);
    const fresh: WorkspaceState = { version: STATE_VERSION, writtenBy: options.programVersion, charts: {} };
    const value = raw === undefined ? fresh : parseState(Buffer.from(raw).toString('utf8'), layout.state);
    return new StateFile(files, layout.state, { ...value, writtenBy: options.programVersion });
  }

  get value(): WorkspaceState {
    return this.#value;
  }

  /** On disk when it resolves; a crash leaves the old value or the new one. */
  async update(change: (state: WorkspaceState) => WorkspaceState): Promise<void> {
    const next = change(this.#value);
    await this.#files.writeAtomic(this.#path, `${JSON.stringify(next, undefined, 2)}\n`, { mode: 0o600 });
    this.#value = next;
  }
}

function parseState(text: string, path: string): WorkspaceState {
  let json: unknown;
  try {
    json = JSON.parse(text);
  } catch (cause) {
    throw new WorkspaceError('workspace-state-invalid', `reading ${path}: not JSON`, { cause });
  }
  const { version, writtenBy } = (json ?? {}) as { version?: unknown; writtenBy?: unknown };
  if (typeof version === 'number' && version > STATE_VERSION) {
    const by = typeof writtenBy === 'string' ? writtenBy : 'an unknown version';
    throw new WorkspaceError(
      'workspace-newer',
      `reading ${path}: format ${version}, written by ${by}; this program knows up to ${STATE_VERSION}`,
    );
  }
  const parsed = stateSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  // Paths only: values may be secret.
  const where = parsed.error.issues.map((issue) => issue.path.join('.') || 'the file').join(', ');
  throw new WorkspaceError('workspace-state-invalid', `reading ${path}: wrong at ${where}`);
}

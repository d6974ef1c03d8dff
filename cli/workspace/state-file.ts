import { z } from 'zod';
import { readText, type FilePort } from '../../internal/file/index.ts';
import { VERSION } from '../../internal/versions/index.ts';
import { WorkspaceError } from './errors.ts';
import type { WorkspaceLayout } from './layout.ts';

/** Version of the format. Files of newer versions are refused. */
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
  /** The CA of the admin certificate, if it is not the Kubernetes CA. */
  kubernetesClientsCaPem: z.string().optional(),
  apiEndpoints: z.array(z.string()),
  curatorEndpoints: z.array(z.string()),
  epoch: z.string().regex(/^[0-9]+$/),
});

/** The machine of the init, from its evidence. Later connections must match it. */
const machineSchema = z.strictObject({
  /** Kind of evidence, such as "tpm". */
  variant: z.string(),
  /** The identity of the machine, such as "tpm-ek:HEX". */
  identity: z.string(),
  /** Name of the attestation key (hex), and the endorsement key that credential activation bound it to. */
  attestationKey: z.string().optional(),
  endorsementKey: z.string().optional(),
  /** The TPM clock of the last connection, to detect a copied TPM. */
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
  /** UUID of the init. */
  id: z.uuid(),
  endpoint: z.string(),
  /** "sha256:HEX" of the machine's key: the init can be resumed only with this machine. */
  fingerprint: z.string(),
  machine: machineSchema.optional(),
  /** SHA-256 of the configuration and the bundle. */
  requestHash: z.string(),
  startedMs: z.int(),
  /**
   * requested: the request is saved and perhaps sent. granted: the result is saved. acknowledged: the machine
   * knows that the result is saved.
   */
  stage: z.enum(['requested', 'granted', 'acknowledged']),
  /** Kept until the init is acknowledged: the exact request, and the key of the kubeconfig. */
  request: z.strictObject({ specBase64: z.string(), adminKeyPem: z.string() }).optional(),
  result: resultSchema.optional(),
});

const chartSchema = z.strictObject({
  /** SHA-256 of the content, namespace and values of the chart. */
  inputsHash: z.string(),
  installedMs: z.int(),
});

const stateSchema = z.strictObject({
  version: z.literal(STATE_VERSION),
  /** Version of the program that wrote the file, for error messages. */
  writtenBy: z.string(),
  init: initSchema.optional(),
  /** The backup that `init` restores: its SHA-256, the epoch of the restored cluster, and the workers that stay members. */
  restore: z
    .strictObject({
      fileSha256: z.string(),
      epoch: z.int().positive(),
      keptWorkers: z.array(z.strictObject({ nodeId: z.string(), name: z.string() })).optional(),
    })
    .optional(),
  charts: z.record(z.string(), chartSchema).default({}),
});

/** Contents of `state.json`. */
export type WorkspaceState = z.output<typeof stateSchema>;
/** Progress of the init. */
export type InitState = z.output<typeof initSchema>;
/** The machine with which the init was started. */
export type MachineRecord = z.output<typeof machineSchema>;
/** Result of the init. */
export type InitStateResult = z.output<typeof resultSchema>;

/** `state.json`: read once, replaced atomically by each update. Only the holder of the workspace lock may update it. */
export class StateFile {
  readonly #files: FilePort;
  readonly #path: string;
  #value: WorkspaceState;

  private constructor(files: FilePort, path: string, value: WorkspaceState) {
    this.#files = files;
    this.#path = path;
    this.#value = value;
  }

  /** A missing file is an empty state. @throws WorkspaceError `workspace-state-invalid`, `workspace-newer` */
  static async read(
    files: FilePort,
    layout: WorkspaceLayout,
    { programVersion } = { programVersion: VERSION },
  ): Promise<StateFile> {
    const text = await readText(files, layout.state, MAX_STATE_BYTES);
    const fresh = { version: STATE_VERSION, charts: {} } as const;
    const value = text === undefined ? fresh : parseState(text, layout.state);
    return new StateFile(files, layout.state, { ...value, writtenBy: programVersion });
  }

  get value(): WorkspaceState {
    return this.#value;
  }

  /** Saves the changed state; a crash leaves the old or the new one. */
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
    throw new WorkspaceError('workspace-state-invalid', `${path} is not JSON`, { cause });
  }
  const { version, writtenBy } = (json ?? {}) as { version?: unknown; writtenBy?: unknown };
  if (typeof version === 'number' && version > STATE_VERSION) {
    const by = typeof writtenBy === 'string' ? writtenBy : 'unknown';
    throw new WorkspaceError(
      'workspace-newer',
      `${path} has format ${version}, written by version ${by}; this program supports up to ${STATE_VERSION}`,
    );
  }
  const parsed = stateSchema.safeParse(json);
  if (parsed.success) return parsed.data;
  // The error contains only names of fields: their values may be secret.
  const where = parsed.error.issues.map((issue) => issue.path.join('.') || 'the file').join(', ');
  throw new WorkspaceError('workspace-state-invalid', `${path} has invalid fields: ${where}`);
}

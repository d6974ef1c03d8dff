/** Where connections come from and where they go: one of the program's listeners. */
export interface ForwardRule {
  readonly listen: Endpoint;
  /** Where they are passed on to, the one to prefer first. */
  readonly upstreams: readonly Endpoint[];
  /** Nothing is counted or cut without. */
  readonly limits?: Limits;
  /** The upstreams are API servers, which are asked for their health (./health-checks.ts). */
  readonly health?: HealthSettings;
}

interface HealthSettings {
  /** Who signed the API servers' certificates. */
  readonly caPem: string;
}

export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** What clients may take of a passage. */
export interface Limits {
  readonly connections: number;
  readonly perSource: number;
  /** A connection that carries nothing for so long, either way, is cut. */
  readonly idleMs: number;
  /** As is one whose one end has ended so long ago. */
  readonly halfOpenMs: number;
  /** As is one that is so old, whatever it carries: who belongs elsewhere goes there. Absent: it may stay. */
  readonly lifeMs?: number;
}

const LIMITS = ['connections', 'perSource', 'idleMs', 'halfOpenMs', 'lifeMs'] as const;
const MAX_PASSAGES = 8;

/**
 * The configuration file, which an agent writes whenever the directory changes: `{"passages": […]}`, or one passage by
 * itself, as agents wrote it first. Strict: an unknown shape keeps the old configuration in force. Throws a SyntaxError.
 */
export function parseForwardRules(text: string): readonly ForwardRule[] {
  const value: unknown = JSON.parse(text);
  const { passages } = (value ?? {}) as { readonly passages?: unknown };
  if (passages === undefined) return [passageFrom(value)];
  if (!Array.isArray(passages) || passages.length === 0 || passages.length > MAX_PASSAGES)
    throw new SyntaxError('passages: a list of them is expected');
  return passages.map(passageFrom);
}

function passageFrom(value: unknown): ForwardRule {
  if (typeof value !== 'object' || value === null) throw new SyntaxError('an object is expected');
  const { listen, upstreams, limits, health } = value as Partial<Record<keyof ForwardRule, unknown>>;
  if (!isEndpoint(listen)) throw new SyntaxError('listen: host and port are expected');
  if (!Array.isArray(upstreams) || upstreams.length === 0 || !upstreams.every(isEndpoint))
    throw new SyntaxError('upstreams: at least one host and port are expected');
  return {
    ...{ listen, upstreams },
    ...(limits === undefined ? {} : { limits: limitsFrom(limits) }),
    ...(health === undefined ? {} : { health: healthFrom(health) }),
  };
}

function healthFrom(value: unknown): HealthSettings {
  const { caPem } = (value ?? {}) as Partial<HealthSettings>;
  if (typeof caPem !== 'string' || !caPem.includes('BEGIN CERTIFICATE'))
    throw new SyntaxError('health: caPem is expected, a certificate');
  return { caPem };
}

/** All of them but the age: one that is missing would be none. */
function limitsFrom(value: unknown): Limits {
  const limits = (value ?? {}) as Partial<Record<string, unknown>>;
  const isNamed = Object.keys(limits).every((name) => LIMITS.some((each) => each === name));
  const read = (name: (typeof LIMITS)[number]): number => {
    const limit = limits[name];
    if (typeof limit !== 'number' || !Number.isSafeInteger(limit) || limit < 1)
      throw new SyntaxError(`limits: ${name} is expected, a whole number`);
    return limit;
  };
  if (!isNamed) throw new SyntaxError(`limits: nothing but ${LIMITS.join(', ')} is known`);
  return {
    connections: read('connections'),
    perSource: read('perSource'),
    idleMs: read('idleMs'),
    halfOpenMs: read('halfOpenMs'),
    ...(limits['lifeMs'] === undefined ? {} : { lifeMs: read('lifeMs') }),
  };
}

function isEndpoint(value: unknown): value is Endpoint {
  const { host, port } = (value ?? {}) as Partial<Endpoint>;
  return (
    typeof host === 'string' &&
    host !== '' &&
    Number.isInteger(port) &&
    Number(port) > 0 &&
    Number(port) < 65536
  );
}

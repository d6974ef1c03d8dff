/** One listener of this program, and the servers to which it forwards connections. */
export interface ForwardRule {
  readonly listen: Endpoint;
  /** Servers in order of preference. */
  readonly upstreams: readonly Endpoint[];
  /** Absent: connections have no limits. */
  readonly limits?: Limits;
  /** The address of each client is announced to the server, with a PROXY header (internal/endpoint). Default: no. */
  readonly announcesClients?: true;
  /** Present if the servers are API servers, whose health is then checked (health-checks.ts). */
  readonly health?: HealthSettings;
}

interface HealthSettings {
  /** The CA of the API servers' certificates, PEM. */
  readonly caPem: string;
}

/** A host (IPv6 without brackets) and a port. */
export interface Endpoint {
  readonly host: string;
  readonly port: number;
}

/** Limits for the clients of a forward rule. The names are those of the configuration file. */
export interface Limits {
  readonly connections: number;
  readonly perSource: number;
  /** A connection without data in either direction is closed after this time. */
  readonly idleMs: number;
  /** A connection that one end has closed is closed completely after this time. */
  readonly halfOpenMs: number;
  /**
   * Maximum age of a connection, so that clients of a relay switch to a direct connection to a control plane.
   * Absent: unlimited.
   */
  readonly lifeMs?: number;
}

const LIMITS = ['connections', 'perSource', 'idleMs', 'halfOpenMs', 'lifeMs'] as const;
const MAX_RULES = 8;

/**
 * Parses the configuration file, which the agent writes when the directory of control planes changes. The
 * file is `{"passages": […]}` or a single forward rule. Parsing is strict: if the content is invalid, the
 * program keeps its previous configuration.
 * @throws SyntaxError
 */
export function parseForwardRules(text: string): readonly ForwardRule[] {
  const value: unknown = JSON.parse(text);
  const { passages } = (value ?? {}) as { readonly passages?: unknown };
  if (passages === undefined) return [ruleFrom(value)];
  if (!Array.isArray(passages) || passages.length === 0 || passages.length > MAX_RULES)
    throw new SyntaxError('passages: expected a list');
  return passages.map(ruleFrom);
}

function ruleFrom(value: unknown): ForwardRule {
  if (typeof value !== 'object' || value === null) throw new SyntaxError('expected an object');
  const { listen, upstreams, limits, health, announcesClients } = value as Partial<
    Record<keyof ForwardRule, unknown>
  >;
  if (!isEndpoint(listen)) throw new SyntaxError('listen: expected host and port');
  if (!Array.isArray(upstreams) || upstreams.length === 0 || !upstreams.every(isEndpoint))
    throw new SyntaxError('upstreams: expected at least one host and port');
  if (announcesClients !== undefined && announcesClients !== true)
    throw new SyntaxError('announcesClients: expected true');
  return {
    ...{ listen, upstreams },
    ...(limits === undefined ? {} : { limits: limitsFrom(limits) }),
    ...(announcesClients === undefined ? {} : { announcesClients }),
    ...(health === undefined ? {} : { health: healthFrom(health) }),
  };
}

function healthFrom(value: unknown): HealthSettings {
  const { caPem } = (value ?? {}) as Partial<HealthSettings>;
  if (typeof caPem !== 'string' || !caPem.includes('BEGIN CERTIFICATE'))
    throw new SyntaxError('health: expected caPem, a certificate');
  return { caPem };
}

/** Parses limits. All limits except the age are required, because a missing limit would mean unlimited. */
function limitsFrom(value: unknown): Limits {
  const limits = (value ?? {}) as Partial<Record<string, unknown>>;
  const isNamed = Object.keys(limits).every((name) => LIMITS.some((each) => each === name));
  const read = (name: (typeof LIMITS)[number]): number => {
    const limit = limits[name];
    if (typeof limit !== 'number' || !Number.isSafeInteger(limit) || limit < 1)
      throw new SyntaxError(`limits: expected ${name}, a positive integer`);
    return limit;
  };
  if (!isNamed) throw new SyntaxError(`limits: expected only ${LIMITS.join(', ')}`);
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

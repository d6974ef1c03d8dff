/** The configuration that the agent writes (bootstrapper/units/exporter-unit.ts). */
export interface ExporterConfig {
  readonly listen: { readonly host: string; readonly port: number };
  readonly certFile: string;
  readonly keyFile: string;
  /** "https://HOST:PORT" of the API servers, and the file with their CA. */
  readonly apiServer: string;
  readonly apiServerCaFile: string;
  readonly isControlPlane: boolean;
}

/**
 * Parses the configuration without a schema library, which would need half of the program's memory.
 * @throws SyntaxError
 */
export function parseExporterConfig(text: string): ExporterConfig {
  const value = (JSON.parse(text) ?? {}) as { readonly [Name in keyof ExporterConfig]?: unknown };
  const { host, port } = (value.listen ?? {}) as { readonly host?: unknown; readonly port?: unknown };
  const { isControlPlane } = value;
  if (typeof host !== 'string' || !Number.isInteger(port) || typeof isControlPlane !== 'boolean')
    throw new SyntaxError('expected listen.host, listen.port and isControlPlane');
  const at = (name: 'certFile' | 'keyFile' | 'apiServer' | 'apiServerCaFile', begin: string): string => {
    const found = value[name];
    if (typeof found !== 'string' || !found.startsWith(begin))
      throw new SyntaxError(`${name}: expected a text that begins with ${begin}`);
    return found;
  };
  return {
    ...{ listen: { host, port: port as number }, isControlPlane },
    ...{ certFile: at('certFile', '/'), keyFile: at('keyFile', '/') },
    ...{ apiServer: at('apiServer', 'https://'), apiServerCaFile: at('apiServerCaFile', '/') },
  };
}

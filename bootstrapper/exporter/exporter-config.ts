import { z } from 'zod';
import { parseProgramConfig } from '../../internal/config/index.ts';

const path = z.string().startsWith('/');

/** The configuration that the agent writes (bootstrapper/units/exporter-unit.ts). */
const shape = z.strictObject({
  listen: z.strictObject({ host: z.string().min(1), port: z.int().min(0).max(65535) }),
  certFile: path,
  keyFile: path,
  /** "https://HOST:PORT" of the API servers, and the file with their CA. */
  apiServer: z.url({ protocol: /^https$/ }),
  apiServerCaFile: path,
  isControlPlane: z.boolean(),
});

/** The parsed configuration. */
export type ExporterConfig = Readonly<z.infer<typeof shape>>;

/** Parses the configuration. @throws Error */
export function parseExporterConfig(text: string): ExporterConfig {
  return parseProgramConfig(shape, text);
}

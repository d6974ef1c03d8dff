import { createHash } from 'node:crypto';
import { stripTypeScriptTypes } from 'node:module';

/** Node's own type stripping as a Jest transform: one dialect for tests, development and production. */
export default {
  process: (source) => ({ code: stripTypeScriptTypes(source, { mode: 'strip' }) }),
  getCacheKey: (source, path) =>
    createHash('sha256').update(process.version).update(path).update(source).digest('hex'),
};

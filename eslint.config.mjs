import tseslint from 'typescript-eslint';
import { unknownMembers } from './.ci/unknown-members.ts';

/**
 * R8: one port for each outside thing. A row names the modules, the directories that may import them, and what all
 * other code uses instead.
 */
const PORTS = [
  {
    modules: ['node:fs', 'node:fs/promises', 'fs', 'fs/promises'],
    allowedIn: ['internal/file'],
    instead:
      'Files are touched by internal/file only: take a FilePort (or add what is missing to that directory).',
  },
  {
    modules: ['node:child_process', 'child_process', 'execa'],
    allowedIn: ['internal/exec'],
    instead: 'Programs are run by internal/exec only: take a CommandRunner.',
  },
  {
    modules: ['@grpc/grpc-js'],
    allowedIn: ['internal/rpc'],
    instead: 'gRPC is spoken by internal/rpc only: use createClient or RpcServer with a contract.',
  },
  {
    modules: ['node:timers', 'node:timers/promises', 'node:perf_hooks', 'timers', 'timers/promises'],
    allowedIn: ['internal/clock'],
    instead: 'Time is read and waited for through internal/clock only: take a Clock.',
  },
  {
    modules: ['node:process', 'process'],
    allowedIn: ['internal/exec'],
    instead: 'The process is touched by main.ts only: take what you need as an option.',
  },
];

const TIMERS = ['setTimeout', 'setInterval', 'setImmediate', 'performance'];
const CLOCK = 'Time is read and waited for through internal/clock only: take a Clock.';
const MAIN = 'The process is touched by main.ts only: take what you need as an option.';

/** The imports that are forbidden in a directory. */
function restrictedImports(directory) {
  const paths = PORTS.filter(({ allowedIn }) => !allowedIn.includes(directory)).flatMap(
    ({ modules, instead }) => modules.map((name) => ({ name, message: instead })),
  );
  return ['error', { paths }];
}

/** Test doubles beside the code that they replace count as tests (R7 in .dependency-cruiser.mjs). */
const TESTS = ['**/*.{test,itest}.ts', '**/fake-*.ts', 'internal/testing/**', 'e2e/**'];
const SCRIPTS = ['.ci/**'];
const MAINS = ['**/main.ts'];

export default tseslint.config(
  { ignores: ['node_modules', 'dist', 'coverage', '**/gen/**', '**/*.mjs'] },
  { linterOptions: { reportUnusedDisableDirectives: 'error' } },
  {
    files: ['**/*.ts'],
    extends: [tseslint.configs.recommendedTypeChecked],
    languageOptions: { parserOptions: { projectService: true, tsconfigRootDir: import.meta.dirname } },
    plugins: { cluster: { rules: { 'unknown-members': unknownMembers } } },
    rules: {
      'cluster/unknown-members': 'error',
      // Nothing runs unwatched.
      '@typescript-eslint/no-floating-promises': [
        'error',
        // Node's own test runner waits for its tests itself.
        { allowForKnownSafeCalls: [{ from: 'package', package: 'node:test', name: ['describe', 'test'] }] },
      ],
      '@typescript-eslint/no-misused-promises': 'error',
      '@typescript-eslint/return-await': ['error', 'error-handling-correctness-only'],
      '@typescript-eslint/promise-function-async': 'off',
      '@typescript-eslint/require-await': 'off', // a port's double answers at once and is async all the same
      // Everything is handled.
      '@typescript-eslint/switch-exhaustiveness-check': [
        'error',
        { considerDefaultExhaustiveForUnions: true },
      ],
      '@typescript-eslint/only-throw-error': 'error',
      '@typescript-eslint/prefer-promise-reject-errors': ['error', { allowThrowingUnknown: true }],
      'no-empty': ['error', { allowEmptyCatch: false }],
      'array-callback-return': 'error',
      'no-fallthrough': 'error',
      eqeqeq: ['error', 'always'],
      // Types say what is so.
      '@typescript-eslint/no-explicit-any': 'error',
      '@typescript-eslint/no-non-null-assertion': 'error',
      '@typescript-eslint/consistent-type-imports': ['error', { fixStyle: 'inline-type-imports' }],
      '@typescript-eslint/no-import-type-side-effects': 'error',
      '@typescript-eslint/no-unused-vars': ['error', { argsIgnorePattern: '^_', varsIgnorePattern: '^_' }],
      '@typescript-eslint/restrict-template-expressions': [
        'error',
        { allowNumber: true, allowBoolean: true },
      ],
      // One voice.
      'no-console': 'error',
      'prefer-const': 'error',
      'no-var': 'error',
      'object-shorthand': ['error', 'properties'],
      'max-lines': ['warn', { max: 300, skipBlankLines: true, skipComments: true }],
      'max-lines-per-function': ['warn', { max: 60, skipBlankLines: true, skipComments: true }],
      'max-params': ['warn', 4],
    },
  },
  {
    files: ['**/*.ts'],
    ignores: [...TESTS, ...SCRIPTS, ...MAINS],
    rules: {
      'no-restricted-imports': restrictedImports(undefined),
      'no-restricted-globals': [
        'error',
        ...TIMERS.map((name) => ({ name, message: CLOCK })),
        { name: 'process', message: MAIN },
      ],
      'no-restricted-properties': ['error', { object: 'Date', property: 'now', message: CLOCK }],
      'no-restricted-syntax': [
        'error',
        { selector: "NewExpression[callee.name='Date'][arguments.length=0]", message: CLOCK },
        {
          selector: "CallExpression[callee.object.name='AbortSignal'][callee.property.name='any']",
          message:
            'AbortSignal.any leaks listeners on long-lived parents (nodejs/node#54614): use childSignal.',
        },
        {
          selector: "CallExpression[callee.object.name='AbortSignal'][callee.property.name='timeout']",
          message: 'AbortSignal.timeout cannot be cleared or faked: use withTimeout.',
        },
        {
          selector: "CallExpression[callee.name='connect'] Property[key.name='signal'][value.name='signal']",
          message: 'A socket keeps its listener on the signal for good: use withChildSignal.',
        },
      ],
    },
  },
  ...[...new Set(PORTS.flatMap(({ allowedIn }) => allowedIn))].map((directory) => ({
    files: [`${directory}/**/*.ts`],
    ignores: TESTS,
    rules: { 'no-restricted-imports': restrictedImports(directory) },
  })),
  {
    files: ['internal/clock/**/*.ts'],
    rules: {
      'no-restricted-globals': 'off',
      'no-restricted-properties': 'off',
      'no-restricted-syntax': 'off',
    },
  },
  {
    files: TESTS,
    rules: {
      'max-lines': 'off',
      'max-lines-per-function': 'off',
      '@typescript-eslint/no-non-null-assertion': 'off',
      '@typescript-eslint/only-throw-error': 'off', // tests throw what others might
      '@typescript-eslint/prefer-promise-reject-errors': 'off',
    },
  },
);

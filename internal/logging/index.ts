/** Ground: structured logs, named by the path of who speaks. */
export { lineSink, ignoreOutputErrors } from './line-sink.ts';
export {
  createLogger,
  formatJsonRecord,
  type LogFields,
  type Logger,
  type LogLevel,
  type LogRecord,
} from './logger.ts';

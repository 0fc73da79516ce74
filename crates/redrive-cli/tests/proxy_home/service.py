# A service that knows nothing of keys: every POST is an effect. It writes down whose it was, so that a test can count.
import http.server, os, random, sys, time

class Service(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        os.write(effects, f"{self.headers['Idempotency-Key']}\n".encode())
        if self.path == "/die":
            os.kill(os.getpid(), 9)
        time.sleep(random.uniform(0, float(sys.argv[3])))
        self.send_response(201)
        self.send_header("Content-Type", "text/plain")
        self.end_headers()
        self.wfile.write(b"saved " + body + b"\n")

    def log_message(self, *_):
        pass

effects = os.open(sys.argv[2], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
server = http.server.ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Service)
print(server.server_port, flush=True)
server.serve_forever()

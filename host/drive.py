import subprocess,sys,json,threading,time,os
binary,mode,total=sys.argv[1],sys.argv[2],sys.argv[3]
d="/tmp/mm/run-%d"%os.getpid(); os.makedirs(d)
exe="" if total=="-" else 'max_total_memory = "%s"\n'%total
open(d+"/c.toml","w").write('[execution]\ntimeout = "120s"\n%s[store]\ndir="%s/store"\n[journal]\nenabled=false\n[upstream.s]\ncommand="python3"\nargs=["/tmp/mm/server.py"]\nmax_timeout="10m"\ntimeout="5m"\n'%(exe,d))
p=subprocess.Popen([binary,"serve","--config",d+"/c.toml"] if mode!="x" else [],stdin=subprocess.PIPE,stdout=subprocess.PIPE,stderr=open(d+"/err","w"))
answers={}; ev=threading.Condition()
def reader():
    for line in p.stdout:
        m=json.loads(line)
        if "id" in m and "method" not in m:
            with ev: answers[m["id"]]=(len(line), "isError\":true" in line.decode()[-200:] or "error" in m, line[:600]); ev.notify_all()
threading.Thread(target=reader,daemon=True).start()
wl=threading.Lock()
def send(m):
    with wl: p.stdin.write((json.dumps(m)+"\n").encode()); p.stdin.flush()
def wait(ids):
    with ev:
        while not all(i in answers for i in ids): ev.wait()
send({"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"x","version":"1"}}}); wait([0])
send({"jsonrpc":"2.0","method":"notifications/initialized"})
def tool(i,n,a): send({"jsonrpc":"2.0","id":i,"method":"tools/call","params":{"name":n,"arguments":a}})
tool(1,"eval_starlark",{"code":"return s.wait(s=0)"}); wait([1]); print(answers[1][2][:200])
def status():
    s=open("/proc/%d/status"%p.pid).read()
    return {k:int([l for l in s.splitlines() if l.startswith(k)][0].split()[1])//1024 for k in ("VmRSS","VmHWM")}
print("before",status()); t=time.time()
ids=range(100,140)
if mode=="answers":
    for i in ids: tool(i,"s__big",{"n":20_000_000})
elif mode=="requests":
    text="x"*20_000_000
    for i in ids: tool(i,"s__take",{"text":text})
elif mode=="runs":
    ids=range(100,164)
    for i in ids: tool(i,"eval_starlark",{"code":"x = 'x' * (100*1024*1024)\ns.wait(s=3)\nreturn len(x)"})
elif mode=="composed":
    for i in ids: tool(i,"eval_starlark",{"code":"return len(s.big(n=8000000))"})
wait(ids); print("all answered after %.1f s"%(time.time()-t), status(), "errors", sum(answers[i][1] for i in ids))
for i in ids:
    if answers[i][1]: print(answers[i][2][:300]); break
time.sleep(7); print("idle", status())
p.stdin.close(); p.wait(10)
